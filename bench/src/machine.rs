use std::process::Command;

/// What the figures depend on: processor, memory, kernel and the versions of the programs.
pub(crate) fn facts() -> Vec<(String, String)> {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: String, name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split(':').nth(1))
            .unwrap_or("unknown")
            .trim()
            .to_string()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut facts = vec![
        ("processor".to_string(), field(file("/proc/cpuinfo"), "model name")),
        ("cores".to_string(), cores.to_string()),
        ("memory".to_string(), field(file("/proc/meminfo"), "MemTotal")),
        ("kernel".to_string(), file("/proc/sys/kernel/osrelease").trim().to_string()),
    ];
    let programs = [
        ("fio", &["--version"][..]),
        ("bindfs", &["--version"]),
        ("rclone", &["version"]),
        ("dpkg-query", &["-W", "-f", "${Version}", "zfs-fuse"]),
    ];
    for (program, arguments) in programs {
        let output = Command::new(program).args(arguments).output();
        let version = output
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .unwrap_or_default();
        let name = if program == "dpkg-query" { "zfs-fuse" } else { program };
        let first = version.lines().next().unwrap_or("not installed").trim().to_string();
        facts.push((name.to_string(), first));
    }
    facts
}
