use std::path::PathBuf;

use tempfile::TempDir;

use crate::mount::{detach, mounted_below};
use crate::{Finished, Warmfront, test_directory};

/// A directory for one test, and the command with settings of its own.
pub struct Place {
    /// The command.
    pub warmfront: Warmfront,
    base: TempDir,
}

impl Place {
    /// Makes these directories in a new one.
    pub fn new(directories: &[&str]) -> Place {
        let base = test_directory();
        for name in directories {
            std::fs::create_dir_all(base.path().join(name)).expect("a directory");
        }
        Place { warmfront: Warmfront::new(), base }
    }

    /// Where `name` is.
    pub fn join(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// The same for a command line.
    pub fn path(&self, name: &str) -> String {
        self.join(name).to_str().expect("text").to_string()
    }

    /// Runs the command in one of the directories.
    pub fn run_in(&self, directory: &str, words: &[&str]) -> Finished {
        self.warmfront.program(words).directory(self.join(directory)).run()
    }
}

impl Drop for Place {
    /// A test that has failed leaves its mounts.
    fn drop(&mut self) {
        mounted_below(self.base.path()).iter().for_each(|path| detach(path));
    }
}
