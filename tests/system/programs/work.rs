// SPDX-License-Identifier: LGPL-2.1-or-later
// work SECONDS
use std::time::{Duration, Instant};

// Nothing that the compiler can see through.
fn black_box(value: u64) -> u64 {
    unsafe { std::ptr::read_volatile(&value) }
}

#[inline(never)]
fn leaf(rounds: u64) -> u64 {
    let mut sum = 0u64;
    for i in 0..rounds {
        sum = black_box(sum.wrapping_add(i * i));
    }
    sum
}

#[inline(never)]
fn middle(end: Instant) -> u64 {
    let mut sum = 0u64;
    while Instant::now() < end {
        sum = sum.wrapping_add(leaf(100000));
    }
    black_box(sum)
}

#[inline(never)]
fn outer(end: Instant) -> u64 {
    black_box(middle(end)) + 1
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    std::process::exit((outer(Instant::now() + Duration::from_secs_f64(seconds)) == 1) as i32);
}
