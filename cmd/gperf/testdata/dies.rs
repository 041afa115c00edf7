// Each dies_… ends with a call that panics, or ends the process, in a child. never_… is the function after it.
use std::{env, hint::black_box, panic, process};

macro_rules! deaths {
    ($at_end:ident, $never_at_end:ident, $if:ident, $never_if:ident, $n:ident, $call:expr) => {
        #[inline(never)]
        pub fn $at_end($n: usize) {
            black_box($n);
            $call;
        }
        #[inline(never)]
        pub fn $never_at_end($n: usize) {
            black_box($n + 1);
            $call;
        }
        #[inline(never)]
        pub fn $if($n: usize) {
            if $n < 1000 {
                $call;
            }
            black_box($n + 2);
        }
        #[inline(never)]
        pub fn $never_if($n: usize) {
            if $n < 1000 {
                $call;
            }
            black_box($n + 3);
        }
    };
}

const NONE: Option<usize> = None;

deaths!(dies_at_end_panic, never_at_end_panic, dies_if_panic, never_if_panic, n, panic!("{}", n));
deaths!(dies_at_end_index, never_at_end_index, dies_if_index, never_if_index, n, { black_box([1, 2, 3][black_box(n + 3)]); });
deaths!(dies_at_end_unwrap, never_at_end_unwrap, dies_if_unwrap, never_if_unwrap, n, { black_box(black_box(NONE).unwrap() + n); });
deaths!(dies_at_end_exit, never_at_end_exit, dies_if_exit, never_if_exit, n, process::exit(n as i32));
deaths!(dies_at_end_abort, never_at_end_abort, dies_if_abort, never_if_abort, _n, process::abort());

fn main() {
    let panics: [fn(usize); 6] = [dies_at_end_panic, dies_if_panic, dies_at_end_index, dies_if_index, dies_at_end_unwrap,
        dies_if_unwrap];
    let ends: [fn(usize); 4] = [dies_at_end_exit, dies_if_exit, dies_at_end_abort, dies_if_abort];
    let never: [fn(usize); 10] = [never_at_end_panic, never_if_panic, never_at_end_index, never_if_index,
        never_at_end_unwrap, never_if_unwrap, never_at_end_exit, never_if_exit, never_at_end_abort, never_if_abort];
    black_box(never);
    if let Some(n) = env::args().nth(1) {
        black_box(ends)[n.parse::<usize>().unwrap()](1);
    }
    panic::set_hook(Box::new(|_| {}));
    for f in black_box(panics) {
        let _ = panic::catch_unwind(move || f(1));
    }
    for n in 0..ends.len() {
        let _ = process::Command::new(env::current_exe().unwrap()).arg(n.to_string()).status();
    }
}
