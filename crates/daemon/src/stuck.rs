use crate::descriptor;
use crate::lock::PoolLock;
use crate::mountinfo::MountEntry;
use crate::paths::Paths;
use crate::process::is_dying;

/// Ends the connection of a mount whose daemon was killed and cannot end: a thread of it waits in
/// the kernel for a program that waits for the daemon, or for a device that does not answer.
/// Whoever uses the mount gets an error then, instead of waiting without end.
pub(crate) fn end_connection(paths: &Paths, mount: &MountEntry) {
    let known = descriptor::load_all(paths).unwrap_or_default();
    let of_mount = known.into_iter().filter(|known| known.device == mount.device);
    // A daemon that has ended keeps no lock; the number of its device may be another's by now.
    let is_stuck = of_mount
        .filter_map(|known| PoolLock::holder(paths, &known.pool))
        .any(|owner| is_dying(owner.pid));
    if mount.is_warmfront()
        && is_stuck
        && let Err(error) = fuse::abort(mount.device)
    {
        let path = mount.mountpoint.display();
        tracing::warn!(%error, "the mount at {path}, whose daemon was killed, may not answer");
    }
}
