use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::Program;

/// A program that is told lines and answers with lines, killed when dropped.
pub struct Dialogue {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Dialogue {
    /// Starts `program`; what it says on standard error is lost.
    pub fn start(program: Program) -> Dialogue {
        let mut command = program.into_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut heard = stdout.lines().map_while(Result::ok);
            heard.try_for_each(|line| sender.send(line))
        });
        Dialogue { child, stdin, lines }
    }

    /// Tells it a line. Says whether it was there to listen.
    pub fn tell(&mut self, line: &str) -> bool {
        writeln!(self.stdin, "{line}").is_ok()
    }

    /// Its next line; `None` when it has ended, or says nothing for as long as that.
    pub fn hear(&mut self, deadline: Duration) -> Option<String> {
        self.lines.recv_timeout(deadline).ok()
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
