// The load of rust: calls, maps, strings, trait objects, panics that are caught, threads.
use std::collections::HashMap;
use std::time::{Duration, Instant};

#[inline(never)]
fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

trait Shape {
    fn area(&self) -> f64;
}
struct Square(f64);
struct Circle(f64);
impl Shape for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}
impl Shape for Circle {
    fn area(&self) -> f64 {
        3.14 * self.0 * self.0
    }
}

fn garbage() -> f64 {
    let mut shapes: Vec<Box<dyn Shape>> = Vec::new();
    for i in 0..20000 {
        shapes.push(if i % 2 == 0 { Box::new(Square(i as f64)) } else { Box::new(Circle(i as f64)) });
    }
    shapes.sort_by(|a, b| b.area().partial_cmp(&a.area()).unwrap());
    shapes.iter().map(|s| s.area()).sum()
}

fn words() -> usize {
    let text = "the quick brown fox jumps over the lazy dog ".repeat(500);
    let mut count = HashMap::new();
    for word in text.split(' ') {
        *count.entry(format!("{word}!")).or_insert(0) += 1;
    }
    count.len()
}

fn throwing(n: u32) -> u32 {
    if n == 0 {
        std::panic::resume_unwind(Box::new("at the bottom"));
    }
    1 + throwing(n - 1)
}

fn work(end: Instant) -> f64 {
    let mut sum = 0.0;
    while Instant::now() < end {
        sum += fib(22) as f64 + garbage() + words() as f64;
        for _ in 0..50 {
            sum += std::panic::catch_unwind(|| throwing(30)).unwrap_or(1) as f64;
        }
    }
    sum
}

fn main() {
    let seconds: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let second = std::thread::spawn(move || work(end));
    println!("{}", work(end) + second.join().unwrap());
}
