// Strings and floating-point numbers of Rust, for probes to read. None of the strings
// ends with a NUL.
use std::hint::black_box;

#[inline(never)]
fn values(s: &str, b: &[u8], o: &String, v: Vec<u8>, f: &f64) {
    black_box((s, b, o, &v, f));
}

#[inline(never)]
fn returned(s: &str) -> &str {
    black_box(&s[1..3])
}

fn main() {
    let owned = black_box(String::from("owned and more"));
    values(&owned[0..5], black_box(&[65, 66, 67]), &owned, black_box(vec![0x61, 0x62]), &black_box(1.5));
    println!("{}", returned(black_box("hello")));
}
