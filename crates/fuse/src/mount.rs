use std::ffi::{CString, OsStr};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags, fsconfig_create, fsmount,
    fsopen,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

use crate::buffer::REQUEST_BYTES_MAX;
use crate::device;

/// What the kernel shows after `fuse.` as the type of the mount.
const SUBTYPE: &str = "warmfront";
/// The set-user-id programs that mount for ordinary users, newest first.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];
/// Tells the helper on which of its descriptors to hand over the device.
const HELPER_SOCKET: &str = "_FUSE_COMMFD";
/// Where the helper is told what ordinary users may do.
const HELPER_SETTINGS: &str = "/etc/fuse.conf";
/// Where the kernel shows its connections with daemons, each by the minor device number of its
/// mount.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// How a file system is mounted.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// What is shown as the mounted device.
    pub source: String,
    /// Refuse all changes.
    pub read_only: bool,
    /// Let other users than the mounting one in.
    pub allow_other: bool,
    /// Let the kernel check permissions.
    pub default_permissions: bool,
    /// Honour set-user-id bits. Ordinary users cannot have this.
    pub set_user_id: bool,
    /// Honour device nodes. Ordinary users cannot have this.
    pub devices: bool,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            source: SUBTYPE.to_string(),
            read_only: false,
            allow_other: false,
            default_permissions: true,
            set_user_id: false,
            devices: false,
        }
    }
}

/// Why a file system could not be mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The mount point cannot be used.
    #[error("cannot mount on {}: {errno}", path.display())]
    Mountpoint {
        /// The mount point.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// The mount point still carries a mount whose daemon is dead.
    #[error(
        "{} carries a mount whose daemon is dead; unmount it first with `fusermount3 -u` or \
         `umount`", path.display()
    )]
    Disconnected {
        /// The mount point.
        path: PathBuf,
    },
    /// The FUSE device cannot be opened.
    #[error(
        "cannot open {}: {errno}; load the kernel module with `modprobe fuse`, or give the \
         container this device",
        device::DEVICE
    )]
    Device {
        /// Why.
        errno: Errno,
    },
    /// There is no program that mounts for ordinary users.
    #[error("fusermount3 is not installed; install the package fuse3, or mount as root")]
    NoHelper,
    /// Only root may let other users in.
    #[error(
        "only root may let other users in; add the line `user_allow_other` to {HELPER_SETTINGS}, \
         or mount without it"
    )]
    AllowOther,
    /// The helper refused.
    #[error("{helper} did not mount {}: {message}", path.display())]
    Refused {
        /// Name of the helper.
        helper: &'static str,
        /// The mount point.
        path: PathBuf,
        /// What it said.
        message: String,
    },
}

/// Why a file system could not be unmounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnmountError {
    /// Files are open on it, or it is somebody's working directory.
    #[error("{} is in use; close its files, or detach it lazily", path.display())]
    Busy {
        /// The mount point.
        path: PathBuf,
    },
    /// Nothing is mounted there.
    #[error("nothing is mounted on {}", path.display())]
    NotMounted {
        /// The mount point.
        path: PathBuf,
    },
    /// Something else.
    #[error("cannot unmount {}: {message}", path.display())]
    Failed {
        /// The mount point.
        path: PathBuf,
        /// What the kernel or the helper said.
        message: String,
    },
}

/// A mounted file system that nobody serves yet. Dropping it leaves a mount that answers
/// `ENOTCONN` until it is [unmounted](unmount).
#[derive(Debug)]
pub struct Mount {
    pub(crate) device: OwnedFd,
    pub(crate) mountpoint: PathBuf,
}

/// Mounts on the directory or file `mountpoint`: by itself if this process may, else with the
/// help of `fusermount3`.
pub fn mount(mountpoint: &Path, options: &MountOptions) -> Result<Mount, MountError> {
    let fail = |error: std::io::Error| {
        let path = mountpoint.to_owned();
        match error.raw_os_error().map(Errno::from_raw_os_error).unwrap_or(Errno::IO) {
            Errno::NOTCONN => MountError::Disconnected { path },
            errno => MountError::Mountpoint { path, errno },
        }
    };
    let mountpoint = mountpoint.canonicalize().map_err(fail)?;
    let kind = mountpoint.metadata().map_err(fail)?.mode() & 0o170_000;
    let device = match rustix::process::geteuid().is_root() {
        true => match directly(&mountpoint, kind, options) {
            Err(MountError::Mountpoint { errno: Errno::PERM, .. }) => helped(&mountpoint, options),
            result => result,
        },
        false => helped(&mountpoint, options),
    }?;
    Ok(Mount { device, mountpoint })
}

/// Whether [`mount`] has what it needs, as far as that can be told beforehand.
///
/// # Errors
/// Those of [`mount`] that have nothing to do with a mount point.
pub fn check(options: &MountOptions) -> Result<(), MountError> {
    if rustix::process::geteuid().is_root() {
        drop(device::open().map_err(|errno| MountError::Device { errno })?);
    } else if options.allow_other && !others_are_allowed() {
        return Err(MountError::AllowOther);
    }
    Ok(())
}

/// Unmounts `mountpoint`. With `lazy`, it vanishes at once and ends when its last file is closed.
pub fn unmount(mountpoint: &Path, lazy: bool) -> Result<(), UnmountError> {
    let path = mountpoint.to_owned();
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazy);
    match rustix::mount::unmount(mountpoint, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => unmount_helped(path, lazy),
        Err(Errno::BUSY) => Err(UnmountError::Busy { path }),
        Err(Errno::INVAL) => Err(UnmountError::NotMounted { path }),
        Err(errno) => Err(UnmountError::Failed { path, message: errno.to_string() }),
    }
}

/// Mounts with `mount(2)`.
fn directly(mountpoint: &Path, kind: u32, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let device = device::open().map_err(|errno| MountError::Device { errno })?;
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOSUID, !options.set_user_id);
    flags.set(MountFlags::NODEV, !options.devices);
    let user = rustix::process::getuid().as_raw();
    let group = rustix::process::getgid().as_raw();
    let descriptor = device.as_raw_fd();
    let mut data = format!("fd={descriptor},rootmode={kind:o},user_id={user},group_id={group}");
    data.push_str(&shared_options(options));
    let fail = |errno| MountError::Mountpoint { path: mountpoint.to_owned(), errno };
    let data = CString::new(data).map_err(|_| fail(Errno::INVAL))?;
    let kind = format!("fuse.{SUBTYPE}");
    rustix::mount::mount(options.source.as_str(), mountpoint, kind, flags, data.as_c_str())
        .map_err(fail)?;
    Ok(device)
}

/// Options that the kernel and the helper understand alike, each with a comma before it.
fn shared_options(options: &MountOptions) -> String {
    let mut text = String::new();
    let _ = write!(text, ",max_read={REQUEST_BYTES_MAX}");
    if options.default_permissions {
        text.push_str(",default_permissions");
    }
    if options.allow_other {
        text.push_str(",allow_other");
    }
    text
}

/// Mounts with the help of `fusermount3`, which hands over the device on its standard input.
fn helped(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    if options.allow_other && !rustix::process::getuid().is_root() && !others_are_allowed() {
        return Err(MountError::AllowOther);
    }
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let mut text = format!("fsname={source},subtype={SUBTYPE}");
    text.push_str(&shared_options(options));
    text.push_str(if options.read_only { ",ro" } else { ",rw" });
    if !options.set_user_id {
        text.push_str(",nosuid");
    }
    if !options.devices {
        text.push_str(",nodev");
    }
    let fail = |errno| MountError::Mountpoint { path: mountpoint.to_owned(), errno };
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(fail)?;
    let arguments = [OsStr::new("-o"), OsStr::new(&text), OsStr::new("--"), mountpoint.as_os_str()];
    let (helper, message) = run_helper(&arguments, Some(theirs)).ok_or(MountError::NoHelper)?;
    let refused = |message| MountError::Refused { helper, path: mountpoint.to_owned(), message };
    match message {
        Ok(()) => receive(&ours).map_err(|errno| refused(errno.to_string())),
        Err(message) => Err(refused(message)),
    }
}

fn others_are_allowed() -> bool {
    let settings = std::fs::read_to_string(HELPER_SETTINGS).unwrap_or_default();
    settings.lines().any(|line| line.trim() == "user_allow_other")
}

fn unmount_helped(path: PathBuf, lazy: bool) -> Result<(), UnmountError> {
    let mut arguments = vec![OsStr::new("-u")];
    if lazy {
        arguments.push(OsStr::new("-z"));
    }
    arguments.extend([OsStr::new("--"), path.as_os_str()]);
    match run_helper(&arguments, None).map(|(_, message)| message) {
        Some(Ok(())) => Ok(()),
        Some(Err(message)) if message.contains("busy") => Err(UnmountError::Busy { path }),
        Some(Err(message)) if message.contains("not found in") => {
            Err(UnmountError::NotMounted { path })
        }
        Some(Err(message)) => Err(UnmountError::Failed { path, message }),
        None => Err(UnmountError::Failed { path, message: MountError::NoHelper.to_string() }),
    }
}

/// Runs the helper and returns which one it was and what it complained about, or nothing when
/// there is none.
fn run_helper(
    arguments: &[&OsStr],
    input: Option<OwnedFd>,
) -> Option<(&'static str, Result<(), String>)> {
    let input = input.map(|input| input.try_clone());
    for helper in HELPERS {
        let mut command = Command::new(helper);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some(Ok(input)) = input.as_ref().map(|input| input.as_ref().map(OwnedFd::try_clone))
        {
            let Ok(input) = input else { continue };
            command.stdin(input).env(HELPER_SOCKET, "0");
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Some((helper, Err(error.to_string()))),
        };
        let mut message = Vec::new();
        if let Some(stderr) = &mut child.stderr {
            let _ = stderr.take(4096).read_to_end(&mut message);
        }
        let ended = child.wait().is_ok_and(|status| status.success());
        let message = String::from_utf8_lossy(&message).trim().to_string();
        return Some((helper, if ended { Ok(()) } else { Err(message) }));
    }
    None
}

/// Takes the device that the helper sent.
fn receive(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0_u8; 1];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(socket, &mut buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    ancillary
        .drain()
        .find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        })
        .ok_or(Errno::BADF)
}

/// Whether `mountpoint` carries a mount whose daemon is dead.
pub fn is_disconnected(mountpoint: &Path) -> bool {
    let path = CString::new(mountpoint.as_os_str().as_bytes());
    // The kernel may still know the attributes of the top, but it never keeps the space. A call
    // that is under way when the daemon dies is broken off.
    let is_dead = |errno| matches!(errno, Errno::NOTCONN | Errno::CONNABORTED);
    path.is_ok_and(|path| rustix::fs::statfs(path).is_err_and(is_dead))
}

/// Breaks off all calls on a mount of ours and every later one, as when its daemon has ended.
/// `device` is the device number of the mount.
///
/// A daemon that is killed while it tells the kernel something may never end by itself: the kernel
/// makes it wait for a lock of a program that waits for an answer of the daemon.
///
/// # Errors
/// When the mount is another user's, or this is not root and the file system `fusectl` is not
/// mounted.
pub fn abort(device: u64) -> std::io::Result<()> {
    let file = format!("{}/abort", rustix::fs::minor(device));
    let opened = match File::options().write(true).open(Path::new(CONNECTIONS).join(&file)) {
        Err(error) if error.kind() == ErrorKind::NotFound => open_connection(&file)?.into(),
        opened => opened?,
    };
    (&opened).write_all(b"1")
}

/// Opens a file of `fusectl`, which is mounted nowhere, as in many containers.
fn open_connection(file: &str) -> Result<OwnedFd, Errno> {
    let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let top = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    rustix::fs::openat(&top, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
}
