use crate::descriptor;
use crate::lock::PoolLock;
use crate::mountinfo::{MountEntry, mounts};
use crate::paths::Paths;
use crate::process::is_dying;
use crate::protocol::Descriptor;

/// Ends the connection of a mount whose daemon was killed and cannot end: a thread of it waits in
/// the kernel for a program that waits for the daemon, or for a device that does not answer.
/// Whoever uses the mount gets an error then, instead of waiting without end.
pub(crate) fn end_connection(paths: &Paths, mount: &MountEntry) {
    let known = descriptor::load_all(paths).unwrap_or_default();
    let is_stuck = known.iter().any(|known| is_of(known, mount) && is_stuck(paths, known));
    if is_stuck && let Err(error) = fuse::abort(mount.device) {
        let path = mount.mountpoint.display();
        tracing::warn!(%error, "the mount at {path}, whose daemon was killed, may not answer");
    }
}

/// The same for the mount of a daemon that does not answer.
pub(crate) fn end_connection_of(paths: &Paths, known: &Descriptor) {
    let mounts = mounts().unwrap_or_default();
    if let Some(mount) = mounts.iter().find(|mount| is_of(known, mount)) {
        end_connection(paths, mount);
    }
}

/// Whether it is the daemon's mount. The number of its device alone does not say so: it may be
/// another's by now, if the mount is gone.
fn is_of(known: &Descriptor, mount: &MountEntry) -> bool {
    mount.is_warmfront()
        && mount.device == known.device
        && mount.mountpoint == known.mountpoint
        && mount.source == known.pool
}

/// A daemon that has ended keeps no lock.
fn is_stuck(paths: &Paths, known: &Descriptor) -> bool {
    let owner = PoolLock::holder(paths, &known.pool);
    owner.is_some_and(|owner| owner.pid == known.pid && is_dying(owner.pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_known_by_more_than_its_device() {
        let known = Descriptor {
            pool: "slow".into(),
            pid: 1,
            origin: "/slow".into(),
            mountpoint: "/fast".into(),
            settings: None,
            device: 45,
            log: None,
        };
        let mount = MountEntry {
            mountpoint: "/fast".into(),
            root: "/".into(),
            device: 45,
            fs_type: "fuse.warmfront".into(),
            source: "slow".into(),
            options: String::new(),
        };
        assert!(is_of(&known, &mount));
        let others = [
            MountEntry { mountpoint: "/other".into(), ..mount.clone() },
            MountEntry { device: 46, ..mount.clone() },
            MountEntry { source: "other".into(), ..mount.clone() },
            MountEntry { fs_type: "fuse.other".into(), ..mount },
        ];
        assert!(others.iter().all(|other| !is_of(&known, other)));
    }
}
