//! Tasks that share one slow fetch, without a runtime: `cargo run --example async_values`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use futures::executor::LocalPool;
use futures::future::join_all;
use futures::task::LocalSpawnExt;
use warmfront::cache::Cache;

/// Answers after a while, as a service on a network does.
async fn ask_service(question: u32) -> Result<Arc<str>, oneshot::Canceled> {
    let (sender, answer) = oneshot::channel();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        // Nobody listens any more if the task was dropped.
        let _ = sender.send(format!("answer {question}").into());
    });
    answer.await
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::<u32, Arc<str>>::builder()
        .capacity_bytes(1 << 20)
        .weigher(|_, answer| answer.len() as u64 + 16)
        .build()?;
    let cache = Arc::new(cache);

    let mut pool = LocalPool::new();
    let mut tasks = Vec::new();
    for number in 0..100 {
        let cache = cache.clone();
        let task = async move {
            let question = number % 5;
            cache.get_or_fetch_async(&question, ask_service(question)).await
        };
        tasks.push(pool.spawner().spawn_local_with_handle(task)?);
    }
    for answer in pool.run_until(join_all(tasks)) {
        assert!(answer?.starts_with("answer "));
    }
    let statistics = cache.statistics();
    println!("100 tasks, {} fetches, {} joined", statistics.fetches, statistics.joined);
    assert_eq!((statistics.fetches, statistics.joined), (5, 95));

    // A thread finds what tasks have fetched.
    let answer = cache.get_or_fetch(&3, || Ok::<_, Infallible>("never asked".into()))?;
    assert_eq!(&*answer, "answer 3");
    Ok(())
}
