use super::{Model, Nanoseconds, Operation, Refusal, Request};

/// Devices with the same contents: one of them serves a read, all of them everything else.
///
/// A read goes to the one with the fewest reads under way, and among equals to the one that read
/// nearest to it last.
#[derive(Debug)]
pub struct Mirror<M> {
    sides: Vec<Side<M>>,
}

#[derive(Debug)]
struct Side<M> {
    device: M,
    free_at: Nanoseconds,
    offset: u64,
}

impl<M: Model> Mirror<M> {
    /// A mirror of these devices.
    ///
    /// # Errors
    /// When there are none.
    pub fn new(devices: Vec<M>) -> Result<Mirror<M>, String> {
        if devices.is_empty() {
            return Err("a mirror has no device; it needs at least one".to_string());
        }
        let side = |device| Side { device, free_at: 0, offset: 0 };
        Ok(Mirror { sides: devices.into_iter().map(side).collect() })
    }
}

impl<M: Model> Model for Mirror<M> {
    fn size_bytes(&self) -> u64 {
        self.sides.iter().map(|side| side.device.size_bytes()).min().unwrap_or(0)
    }

    fn serve(&mut self, now: Nanoseconds, request: Request) -> Result<Nanoseconds, Refusal> {
        request.check(self.size_bytes())?;
        if request.operation == Operation::Read {
            let side = self
                .sides
                .iter_mut()
                .min_by_key(|side| (side.free_at.max(now), side.offset.abs_diff(request.offset)))
                .expect("a mirror has a device");
            side.free_at = side.device.serve(now, request)?;
            side.offset = request.offset + request.bytes;
            return Ok(side.free_at);
        }
        let mut done = now;
        for side in &mut self.sides {
            let side_done = side.device.serve(now, request)?;
            side.free_at = side.free_at.max(side_done);
            side.offset = request.offset + request.bytes;
            done = done.max(side_done);
        }
        Ok(done)
    }

    fn validate(&self) -> Result<(), String> {
        self.sides.iter().try_for_each(|side| side.device.validate())
    }
}
