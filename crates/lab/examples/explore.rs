use std::path::Path;
use std::time::Instant;
use lab::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let t0 = Instant::now();
    let t = Trace::read(Path::new(&a[1]), None).unwrap();
    eprintln!("read {:?} {} req {} distinct {} bytes", t0.elapsed(), t.requests(), t.distinct(), t.distinct_bytes());
    let policies: Vec<PolicyName> = a[2].split(',').map(|p| p.parse().unwrap()).collect();
    let _ = t.next_accesses();
    for s in a[3].split(',') {
        let size = match s.strip_suffix('%') { Some(x) => Size::Fraction(x.parse::<f64>().unwrap()/100.0), None => Size::Blocks(s.parse().unwrap()) };
        for &p in &policies {
            let t0 = Instant::now();
            let r = replay(&t, &Replay { policies: vec![p], sizes: vec![size], form: Form::Plain }, &|_| ());
            println!("{s} {:10} hit {:.3} miss {:.6} {:.1} Mreq/s", p, 100.0*(1.0-r[0].miss_ratio), r[0].miss_ratio, t.requests() as f64/1e6/t0.elapsed().as_secs_f64());
        }
    }
}
