// Workloads of tasks and their waits: snooze, spin, mutex, condition.
use crate::{cpu_ns, measure, run, WARM_UPS};
use std::sync::Arc;
use tokio::sync::{Mutex, Notify};
use tokio::task::yield_now;

async fn yield_times(times: usize) {
    for _ in 0..times {
        yield_now().await;
    }
}

/// One task measures. Between two of its yields, each other task yields once.
pub fn snooze(count: usize, n: usize) {
    let (laps, warm) = ((n / count).max(1), 1 + WARM_UPS / count);
    let took = crate::runtime().block_on(async move {
        let others: Vec<_> = (1..count).map(|_| tokio::spawn(yield_times(warm + laps))).collect();
        let taker = tokio::spawn(async move {
            yield_times(warm).await;
            let began = cpu_ns();
            yield_times(laps).await;
            cpu_ns() - began
        });
        for other in others {
            other.await.unwrap();
        }
        taker.await.unwrap()
    });
    println!("{}", took / (laps * count) as f64);
}

pub fn spin(_: usize, n: usize) {
    run(measure(cpu_ns, n, |n| async move {
        for _ in 0..n {
            tokio::spawn(async {}).await.unwrap();
        }
        n
    }));
}

pub fn mutex(count: usize, n: usize) {
    run(measure(cpu_ns, n, move |n| async move {
        let (each, done) = ((n / count).max(1), Arc::new(Mutex::new(0)));
        let all: Vec<_> = (0..count)
            .map(|_| {
                let done = done.clone();
                tokio::spawn(async move {
                    for _ in 0..each {
                        let mut held = done.lock().await;
                        yield_now().await;
                        *held += 1;
                    }
                })
            })
            .collect();
        for one in all {
            one.await.unwrap();
        }
        let done = *done.lock().await;
        assert!(done == each * count);
        done
    }));
}

/// A condition variable: a Notify, and a standard mutex that is held only between two waits.
struct Turn {
    whose: std::sync::Mutex<usize>,
    changed: [Notify; 2],
}

async fn take_turns(turn: Arc<Turn>, mine: usize, n: usize) {
    for _ in 0..n {
        while *turn.whose.lock().unwrap() != mine {
            turn.changed[mine].notified().await;
        }
        *turn.whose.lock().unwrap() = 1 - mine;
        turn.changed[1 - mine].notify_one();
    }
}

pub fn condition(_: usize, n: usize) {
    run(measure(cpu_ns, n, |n| async move {
        let turn = Arc::new(Turn { whose: 0.into(), changed: Default::default() });
        let other = tokio::spawn(take_turns(turn.clone(), 1, n));
        take_turns(turn, 0, n).await;
        other.await.unwrap();
        n
    }));
}
