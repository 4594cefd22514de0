use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{Shared, join_all};
use parking_lot::Mutex;
use storage::ObjectId;

/// Objects that were found under another name than before, while whoever stands above is still
/// being told to forget the former one.
///
/// The telling cannot be waited for in the look-up that has found the object: the kernel holds
/// the directory until it is answered. It is waited for when the object is opened, so that after
/// the open nobody reaches the object by its former name any more.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    under_way: Mutex<Vec<(ObjectId, Shared<oneshot::Receiver<()>>)>>,
}

impl Moves {
    /// Notes that the telling about `object` begins; it ends when the result is used or dropped.
    pub(crate) fn begin(&self, object: ObjectId) -> oneshot::Sender<()> {
        let (done, end) = oneshot::channel();
        let mut under_way = self.under_way.lock();
        under_way.retain(|(_, end)| end.peek().is_none());
        under_way.push((object, end.shared()));
        done
    }

    /// Waits until all has been told about `object`.
    pub(crate) async fn told(&self, object: ObjectId) {
        let ends: Vec<_> = {
            let under_way = self.under_way.lock();
            under_way.iter().filter(|(id, _)| *id == object).map(|(_, end)| end.clone()).collect()
        };
        join_all(ends).await;
    }
}
