use futures::future::BoxFuture;

/// Concurrency as the engine sees it: a way to let a piece of work go on by itself.
///
/// ```
/// use std::sync::Arc;
/// use storage::{Simulation, Spawn};
///
/// let simulation = Simulation::new(1);
/// let spawn: Arc<dyn Spawn> = Arc::new(simulation.clone());
/// let (told, wait) = futures::channel::oneshot::channel();
/// spawn.spawn(Box::pin(async move { drop(told.send(42)) }));
/// assert_eq!(simulation.run(wait), Ok(42));
/// ```
pub trait Spawn: Send + Sync {
    /// Starts `task` beside the caller. It runs to its end; its result is nobody's.
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// A fixed number of threads that each run one task at a time.
///
/// Tasks may block: over real storage they do their system calls inline.
///
/// ```
/// use storage::{Spawn, ThreadPool};
///
/// let pool = ThreadPool::new("work", 2)?;
/// let (told, wait) = std::sync::mpsc::channel();
/// pool.spawn(Box::pin(async move { drop(told.send(42)) }));
/// assert_eq!(wait.recv(), Ok(42));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ThreadPool {
    pool: futures::executor::ThreadPool,
}

impl ThreadPool {
    /// Starts `threads` threads named `name-N`.
    ///
    /// # Errors
    /// When the system refuses another thread.
    ///
    /// ```
    /// use storage::{Spawn, ThreadPool};
    ///
    /// let pool = ThreadPool::new("work", 1)?;
    /// let (told, wait) = std::sync::mpsc::channel();
    /// let name = || std::thread::current().name().map(str::to_string);
    /// pool.spawn(Box::pin(async move { drop(told.send(name())) }));
    /// assert_eq!(wait.recv(), Ok(Some("work-0".to_string())));
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
