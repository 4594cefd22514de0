use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Connects to the socket at any path, also one longer than the 107 bytes that an address holds.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_directory, short) = shorten(path)?;
    UnixStream::connect(short)
}

/// Makes a socket at any path, for its owner only.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    let (_directory, short) = shorten(path)?;
    // Between these two lines the directory keeps others out.
    let listener = UnixListener::bind(&short)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// The same path by way of an open directory, which must stay open while the path is used.
fn shorten(path: &Path) -> io::Result<(File, PathBuf)> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let directory = File::options().read(true).custom_flags(flags).open(directory)?;
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    Ok((directory, short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_may_be_long() {
        let base = tempfile::tempdir().expect("a directory");
        let directory = base.path().join("x".repeat(200));
        std::fs::create_dir(&directory).expect("made");
        let path = directory.join("pool.sock");
        let listener = listen(&path).expect("it listens");
        let _client = connect(&path).expect("it connects");
        listener.accept().expect("it is there");
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
