use std::sync::atomic::AtomicU64;

use super::*;

fn plan(policies: &[PolicyName], sizes: &[Size], form: Form) -> Replay {
    Replay { policies: policies.to_vec(), sizes: sizes.to_vec(), form }
}

#[test]
fn rows_come_in_the_order_of_the_plan_and_requests_are_reported() {
    let trace = Trace::from_blocks("loop", (0..100).cycle().take(5000), 512);
    let sizes = [Size::Fraction(0.015), Size::Blocks(100), Size::Bytes(1024)];
    let plan = plan(&PolicyName::ALL, &sizes, Form::Plain);
    let reported = AtomicU64::new(0);
    let rows = replay(&trace, &plan, &|requests| {
        reported.fetch_add(requests, Ordering::Relaxed);
    });
    assert_eq!(rows.len(), 3 * PolicyName::ALL.len());
    assert_eq!(plan.requests(&trace), reported.into_inner());
    for (rows, policy) in rows.chunks(3).zip(PolicyName::ALL) {
        let shapes: Vec<_> = rows
            .iter()
            .map(|row| (row.policy, row.capacity_blocks, row.capacity_bytes, row.fraction))
            .collect();
        let name = policy.name();
        let expected = [
            (name, Some(1), 512, 0.015),
            (name, Some(100), 51_200, 1.0),
            (name, Some(2), 1024, 0.02),
        ];
        assert_eq!(shapes, expected);
        assert!(rows.iter().all(|row| row.requests == 5000 && row.misses >= 100));
    }
}

#[test]
fn absurd_sizes_are_bounded() {
    let blocks = Trace::from_blocks("blocks", [1, 2, 1, 3, 1], 4096);
    let objects = Trace::from_objects("objects", [(1, 5), (2, 6), (1, 5), (3, 7), (1, 5)]);
    let sizes = [
        Size::Fraction(1e-300),
        Size::Fraction(1e300),
        Size::Bytes(1),
        Size::Bytes(u64::MAX),
        Size::Blocks(u64::MAX),
    ];
    for trace in [&blocks, &objects] {
        for form in [Form::Plain, Form::Charged] {
            for row in replay(trace, &plan(&PolicyName::ALL, &sizes, form), &|_| ()) {
                assert!((3..=5).contains(&row.misses), "{row:?}");
                assert!(row.capacity_bytes > 0, "{row:?}");
            }
        }
    }
}

#[test]
fn charges_are_paid_out_of_the_size() {
    let trace = Trace::from_blocks("random", (0..40_000u64).map(|step| step * step % 997), 512);
    let sizes = [Size::Fraction(0.25)];
    let plain = replay(&trace, &plan(&PolicyName::ALL, &sizes, Form::Plain), &|_| ());
    let charged = replay(&trace, &plan(&PolicyName::ALL, &sizes, Form::Charged), &|_| ());
    for (plain, charged) in plain.iter().zip(&charged) {
        assert!(charged.misses >= plain.misses, "{plain:?} {charged:?}");
        let bytes = (trace.distinct() as f64 * 4096.0 * 0.25) as u64;
        assert_eq!(charged.capacity_bytes, bytes);
        assert_eq!(charged.capacity_blocks, plain.capacity_blocks);
    }
}

#[test]
fn bytes_that_miss_are_counted() {
    let trace = Trace::from_objects("objects", [(1, 30), (2, 10), (1, 30), (2, 10)]);
    let sizes = [Size::Bytes(10)];
    let rows = replay(&trace, &plan(&[PolicyName::Lru], &sizes, Form::Plain), &|_| ());
    // The large one passes by; the small one is there when it comes again.
    assert_eq!((rows[0].misses, rows[0].capacity_blocks), (3, None));
    assert!((rows[0].byte_miss_ratio - 70.0 / 80.0).abs() < 1e-12);
}
