// Tasks of Tokio. A contender of bench/README.md.
//
// build: cargo build -q --offline --release --target-dir build/peers/tokio-target
//        (in a copy of this folder, because cargo writes its lock file there)
// run:   build/peers/tokio-target/release/tokio_peer [WORK COUNT N]
//
// One thread runs all tasks (a current-thread runtime). Workloads with two threads use two such
// runtimes, because a multi-thread runtime soon runs both tasks in one thread.
mod echo;
mod memory;
mod messages;
mod tasks;
mod threads;
mod time;

use std::future::Future;
use tokio::runtime::{Builder, Runtime};

pub const WARM_UPS: usize = 1000;

type Run = fn(usize, usize);

const WORKS: &[(&str, Run)] = &[
    ("snooze", tasks::snooze),
    ("spin", tasks::spin),
    ("rendezvous", messages::rendezvous),
    ("buffered", messages::buffered),
    ("select", messages::select),
    ("mutex", tasks::mutex),
    ("condition", tasks::condition),
    ("mailbox", messages::mailbox),
    ("cords", threads::cords),
    ("flow", threads::flow),
    ("offload", threads::offload),
    ("timeout", time::timeout),
    ("parked", memory::parked),
    ("sleepers", time::sleepers),
    ("echo", echo::echo),
];

fn read_ns(clock: libc::clockid_t) -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(clock, &mut t) };
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

pub fn cpu_ns() -> f64 {
    read_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

pub fn real_ns() -> f64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Run `work` in its own task. The future of block_on is polled differently.
pub fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    runtime().block_on(async { tokio::spawn(work).await.unwrap() })
}

/// Print the time per operation, after a warm-up. `work` returns the number of its operations.
pub async fn measure<F, W>(now: fn() -> f64, n: usize, work: F)
where
    F: Fn(usize) -> W,
    W: Future<Output = usize>,
{
    work(n.min(WARM_UPS)).await;
    let began = now();
    let done = work(n).await;
    println!("{}", (now() - began) / done as f64);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        WORKS.iter().for_each(|work| println!("{}", work.0));
        return;
    }
    let numbers: Vec<usize> = arguments[1..].iter().filter_map(|a| a.parse().ok()).collect();
    match (WORKS.iter().find(|work| work.0 == arguments[0]), &numbers[..]) {
        (Some(work), &[count, n]) => work.1(count, n),
        _ => {
            eprintln!("usage: tokio_peer [WORK COUNT N]");
            std::process::exit(2);
        }
    }
}
