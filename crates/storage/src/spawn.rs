use futures::future::BoxFuture;

/// Concurrency as the engine sees it: a way to let a piece of work go on by itself.
pub trait Spawn: Send + Sync {
    /// Starts `task` beside the caller. It runs to its end; its result is nobody's.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// A fixed number of threads that each run one task at a time.
///
/// Tasks may block: over real storage they do their system calls inline.
#[derive(Debug, Clone)]
pub struct ThreadPool {
    pool: futures::executor::ThreadPool,
}

impl ThreadPool {
    /// Starts `threads` threads named `name-N`.
    ///
    /// # Errors
    /// When the system refuses another thread.
    pub fn new(name: &str, threads: usize) -> std::io::Result<ThreadPool> {
        let pool = futures::executor::ThreadPool::builder()
            .pool_size(threads)
            .name_prefix(format!("{name}-"))
            .create()?;
        Ok(ThreadPool { pool })
    }
}

impl Spawn for ThreadPool {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.pool.spawn_ok(task);
    }
}
