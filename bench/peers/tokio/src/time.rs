// Workloads of time: timeout, sleepers.
use crate::{cpu_ns, measure, run, runtime};
use std::future::{pending, poll_fn, Future};
use std::task::Poll;
use std::time::Duration;

/// Poll a timeout once, which arms it, and drop the timeout.
async fn arm_and_disarm() {
    let wait = tokio::time::timeout(Duration::from_secs(60), pending::<()>());
    tokio::pin!(wait);
    poll_fn(|context| {
        assert!(wait.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// Run unconstrained: otherwise a task that has polled 128 timers arms no more before it yields. An
/// earlier timer exists, as in programs with several timers. Without that timer the runtime would
/// write to its eventfd for each timeout.
pub fn timeout(_: usize, n: usize) {
    run(tokio::task::unconstrained(async move {
        tokio::spawn(tokio::time::sleep(Duration::from_secs(30)));
        tokio::time::sleep(Duration::from_millis(1)).await;
        measure(cpu_ns, n, |n| async move {
            for _ in 0..n {
                arm_and_disarm().await;
            }
            n
        })
        .await
    }));
}

pub fn sleepers(count: usize, _: usize) {
    let began = cpu_ns();
    runtime().block_on(async {
        let all: Vec<_> = (0..count)
            .map(|i| {
                let us = 500_000 + (i as u32).wrapping_mul(2_654_435_761) % 1_000_000;
                tokio::spawn(tokio::time::sleep(Duration::from_micros(us.into())))
            })
            .collect();
        for one in all {
            one.await.unwrap();
        }
    });
    println!("{}", (cpu_ns() - began) / 1e6);
}
