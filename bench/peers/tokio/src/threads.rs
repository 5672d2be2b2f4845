// Workloads with several threads, in real time: cords, flow, offload. Channels are unbounded, as
// the mailboxes of weft.
use crate::{measure, real_ns, run};
use std::thread;
use tokio::sync::mpsc;

/// Run a task in this thread, and a task in another thread with its own runtime.
pub fn cords(_: usize, n: usize) {
    let (there, mut asked) = mpsc::unbounded_channel();
    let (back, mut answered) = mpsc::unbounded_channel();
    let other = thread::spawn(|| {
        run(async move {
            while let Some(value) = asked.recv().await {
                back.send(value).unwrap();
            }
        })
    });
    run(async move {
        measure_trips(n, &there, &mut answered).await;
    });
    other.join().unwrap();
}

async fn measure_trips(
    n: usize,
    there: &mpsc::UnboundedSender<usize>,
    answered: &mut mpsc::UnboundedReceiver<usize>,
) {
    let mut began = 0.0;
    let warm = n.min(crate::WARM_UPS);
    for i in 0..warm + n {
        if i == warm {
            began = real_ns();
        }
        there.send(i).unwrap();
        assert!(answered.recv().await == Some(i));
    }
    println!("{}", (real_ns() - began) / n as f64);
}

pub fn flow(_: usize, n: usize) {
    let (there, mut messages) = mpsc::unbounded_channel();
    let (done, mut is_done) = mpsc::unbounded_channel();
    let laps = [n.min(crate::WARM_UPS), n];
    let other = thread::spawn(move || {
        run(async move {
            for n in laps {
                let mut sum = 0;
                for _ in 0..n {
                    sum += messages.recv().await.unwrap();
                }
                done.send(sum).unwrap();
            }
        })
    });
    run(async move {
        let mut began = 0.0;
        for n in laps {
            began = real_ns();
            (0..n).for_each(|_| there.send(1).unwrap());
            assert!(is_done.recv().await == Some(n));
        }
        println!("{}", (real_ns() - began) / n as f64);
    });
    other.join().unwrap();
}

pub fn offload(_: usize, n: usize) {
    run(measure(real_ns, n, |n| async move {
        for _ in 0..n {
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        }
        n
    }));
}
