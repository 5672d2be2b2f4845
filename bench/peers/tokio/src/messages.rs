// Workloads of messages within a thread: rendezvous, buffered, select, mailbox.
use crate::{cpu_ns, measure, run};
use tokio::sync::mpsc;

/// A channel always has a buffer. A capacity of 1 is the closest equivalent.
pub fn rendezvous(_: usize, n: usize) {
    run(measure(cpu_ns, n, |n| async move {
        let (there, mut asked) = mpsc::channel(1);
        let (back, mut answered) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(value) = asked.recv().await {
                back.send(value).await.unwrap();
            }
        });
        for i in 0..n {
            there.send(i).await.unwrap();
            assert!(answered.recv().await == Some(i));
        }
        n
    }));
}

pub fn mailbox(_: usize, n: usize) {
    run(measure(cpu_ns, n, |n| async move {
        let (there, mut asked) = mpsc::unbounded_channel();
        let (back, mut answered) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(value) = asked.recv().await {
                back.send(value).unwrap();
            }
        });
        for i in 0..n {
            there.send(i).unwrap();
            assert!(answered.recv().await == Some(i));
        }
        n
    }));
}

pub fn buffered(count: usize, n: usize) {
    run(measure(cpu_ns, n, move |n| async move {
        let (there, mut messages) = mpsc::channel(count);
        let receiver = tokio::spawn(async move {
            let mut sum = 0;
            while let Some(value) = messages.recv().await {
                sum += value;
            }
            sum
        });
        for _ in 0..n {
            there.send(1).await.unwrap();
        }
        drop(there);
        assert!(receiver.await.unwrap() == n);
        n
    }));
}

pub fn select(count: usize, n: usize) {
    assert!(count == 2, "select: COUNT is not 2");
    run(measure(cpu_ns, n, |n| async move {
        let (to_a, mut a) = mpsc::channel(1);
        let (to_b, mut b) = mpsc::channel(1);
        tokio::spawn(async move {
            for i in 0..n {
                let to = if i % 2 == 0 { &to_a } else { &to_b };
                to.send(1).await.unwrap();
            }
        });
        let mut sum = 0;
        while sum < n {
            sum += tokio::select! {
                Some(value) = a.recv() => value,
                Some(value) = b.recv() => value,
            };
        }
        sum
    }));
}
