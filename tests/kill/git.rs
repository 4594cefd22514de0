use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use warmfront_tests::{Finished, Program, Requirement, require};

use crate::victim::{Victim, kills};

fn git(directory: &Path, words: &[&str]) -> Finished {
    Program::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
        .args(["-c", "init.defaultBranch=main", "-c", "safe.directory=*", "-c", "gc.auto=0"])
        .args(["-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync"])
        .args(words)
        .directory(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .run()
}

/// Commits until git fails, and returns the commits that were made.
fn commit(work: &Path, round: u64) -> Vec<String> {
    let mut made = Vec::new();
    for number in 0.. {
        let name = format!("directory{}/{round}-{number}", number % 3);
        let path = work.join(&name);
        let written = fs::create_dir_all(path.parent().expect("it lies in one"))
            .and_then(|()| fs::write(&path, name.repeat(300)));
        if written.is_err()
            || !git(work, &["add", "--all"]).succeeded()
            || !git(work, &["commit", "--quiet", "--message", &name]).succeeded()
        {
            break;
        }
        let head = git(work, &["rev-parse", "HEAD"]);
        if !head.succeeded() {
            break;
        }
        made.push(head.stdout.trim().to_string());
    }
    made
}

/// Locks that a git which was killed has left: it is for people to remove them.
fn unlock(directory: &Path) {
    let mut open: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("a name").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "lock") {
                fs::remove_file(&path).expect("it can be removed");
            }
        }
    }
}

#[test]
fn git_keeps_commits() {
    require!(Requirement::Fuse, Requirement::Tool("git"));
    let mut victim = Victim::new(5, &[("coherence", "exclusive")]);
    git(victim.mount().path(), &["init", "--quiet", "work"]).success();
    // Git makes what it commits last, not the repository itself.
    victim.mount().run(&["sync"]);
    let work = victim.join("work");
    let mut made = Vec::new();
    for round in 0..kills() {
        let work = &work;
        std::thread::scope(|scope| {
            let session = scope.spawn(move || commit(work, round));
            std::thread::sleep(Duration::from_millis(300));
            victim.kill_within(Duration::from_millis(2000));
            made.extend(session.join().expect("git ends"));
        });
        victim.revive();
        unlock(&work.join(".git"));
        git(work, &["fsck", "--full", "--strict", "--no-dangling"]).success();
        let known = git(work, &["rev-list", "main"]).success();
        let lost: Vec<_> = made.iter().filter(|commit| !known.contains(*commit)).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        // Git does not make the files themselves last.
        git(work, &["reset", "--quiet", "--hard"]).success();
        git(work, &["clean", "--quiet", "--force", "-d"]).success();
        assert_eq!(git(work, &["status", "--porcelain"]).success(), "");
    }
    assert!(!made.is_empty(), "nothing was committed");
    let mount = victim.end();
    let work = mount.origin().join("work");
    git(&work, &["fsck", "--full", "--strict", "--no-dangling"]).success();
    assert_eq!(git(&work, &["status", "--porcelain"]).success(), "");
}
