use std::fmt::Write;
use std::num::NonZeroU32;

use indicatif::ProgressStyle;
use lab::model::Positive;
use lab::sizing::{Choice, Prices, Sizing, SizingPlan, sizing};
use lab::{Size, Trace};
use warmfront::{HumanSize, Properties, Property};

use super::report::recorded;
use super::{check_writable, filled, list, progress_bar, size, split, write_plot};
use crate::arguments::SizeArguments;
use crate::bars::{room, width};
use crate::failure::{Failure, Result};
use crate::format::{Form, json, print, things};
use crate::table::Table;

/// Smallest record, bytes.
const RECORD_BYTES_MIN: u32 = 4096;
/// If even the best of all choices is not quicker than the disks alone by this factor, no cache
/// is worth buying.
const WORTH_BUYING: f64 = 1.1;
const DAYS_PER_YEAR: f64 = 365.25;
/// What a narrow terminal can do without.
const LEFT_OUT_FIRST: [&str; 5] = ["INDEX", "P99", "MAX REQ/S", "DISKS", "DEVICE"];

/// What is asked for beside the plan.
struct Wish {
    response_ms: Option<f64>,
    budget: Option<f64>,
}

/// Finds the cheapest.
pub(super) fn run(arguments: &SizeArguments) -> Result<()> {
    let format = arguments.format.as_deref().map(str::parse).transpose();
    let (format, path) = split(&arguments.trace, format.map_err(Failure::usage)?);
    let mut plan = plan(arguments)?;
    let wish = Wish {
        response_ms: arguments.response.as_deref().map(milliseconds).transpose()?,
        budget: positive("--budget", arguments.budget.as_deref())?.map(Positive::get),
    };
    if let Some(file) = &arguments.plot {
        check_writable("plot", file)?;
    }
    let bar = progress_bar();
    bar.set_message(format!("reading {}", path.display()));
    let trace = Trace::read(path, format).map_err(Failure::new)?;
    if plan.record_bytes.is_empty() {
        let bytes = trace.block_bytes().filter(|bytes| *bytes < RECORD_BYTES_MIN);
        plan.record_bytes.push(bytes.map(|_| RECORD_BYTES_MIN));
    }
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {human_pos} requests, {eta} left") {
        bar.set_style(style);
    }
    let found = sizing(&trace, &plan, &|requests, all| {
        bar.set_length(all);
        bar.inc(requests);
        if bar.position() == all
            && let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
        {
            bar.set_style(style);
            bar.set_message("how quickly the devices respond");
        }
    });
    bar.finish_and_clear();
    let found = found.map_err(Failure::new)?;
    if let Some(file) = &arguments.plot {
        write_plot(file, &lab::plot::sizing_svg(&found).map_err(Failure::new)?)?;
    }
    print(&match arguments.json {
        true => json(&found),
        false => people(&found, &plan, &wish, arguments.all),
    });
    Ok(())
}

fn plan(arguments: &SizeArguments) -> Result<SizingPlan> {
    let mut without_flash = false;
    let flash = list(&arguments.flash, |word| match word {
        "none" | "0" => Ok(None),
        word => size::parse(word).map(Some),
    })?;
    let flash: Vec<Size> = flash
        .into_iter()
        .filter_map(|size| {
            without_flash |= size.is_none();
            size
        })
        .collect();
    let records = arguments.records.as_deref().map(|text| list(text, record_bytes));
    let disks = |word: &str| {
        word.parse::<NonZeroU32>()
            .map_err(|_| Failure::usage(format!("`{word}` is not a number of disks, from 1 on")))
    };
    let prices = match &arguments.prices {
        Some(file) => Prices::read(file),
        None => Prices::shipped(),
    };
    Ok(SizingPlan {
        policies: list(&arguments.policies, |word| word.parse().map_err(Failure::usage))?,
        record_bytes: records.transpose()?.unwrap_or_default(),
        ram: list(&arguments.ram, size::parse)?,
        flash,
        flash_devices: list(&arguments.flash_devices, |word| Ok(word.to_owned()))?,
        without_flash,
        disk: arguments.disk.clone(),
        disks: list(&arguments.disks, disks)?,
        requests_per_s: positive("--rate", arguments.rate.as_deref())?,
        sample_percent: positive("--sample", arguments.sample.as_deref())?
            .map(|percent| match percent.get() <= 100.0 {
                true => Ok(percent),
                false => Err(Failure::usage(format!(
                    "`{}` is more than all of the data; --sample takes at most 100",
                    percent.get()
                ))),
            })
            .transpose()?,
        prices: prices.map_err(Failure::new)?,
    })
}

/// What a pool takes as its `recordsize`.
fn record_bytes(word: &str) -> Result<Option<u32>> {
    let mut properties = Properties::default();
    let applied = Property::by_name("recordsize").and_then(|it| it.apply(word, &mut properties));
    applied.map_err(|error| Failure::usage(format!("--records: {error}")))?;
    Ok(u32::try_from(properties.recordsize).ok())
}

fn positive(name: &str, text: Option<&str>) -> Result<Option<Positive>> {
    let read = |text: &str| {
        let number = text.trim_end_matches('%').parse::<f64>();
        number.ok().and_then(|number| Positive::try_from(number).ok()).ok_or_else(|| {
            Failure::usage(format!("`{text}` is not a number above zero, as {name} needs"))
        })
    };
    text.map(read).transpose()
}

fn milliseconds(text: &str) -> Result<f64> {
    let units = [("ms", 1.0), ("us", 1e-3), ("s", 1e3)];
    let known = units.iter().find_map(|(unit, each)| Some((text.strip_suffix(unit)?, each)));
    let number = known.and_then(|(number, each)| Some(number.trim().parse::<f64>().ok()? * each));
    number
        .filter(|number| *number > 0.0 && number.is_finite())
        .ok_or_else(|| Failure::usage(format!("`{text}` is not a time; write 2ms, 500us or 1s")))
}

fn people(found: &Sizing, plan: &SizingPlan, wish: &Wish, all: bool) -> String {
    let mut text = format!("{}: ", found.trace);
    let sampled = found.sample_percent < 100.0 || found.recorded_percent < 100.0;
    text.push_str(&match (found.sample_percent < 100.0, sampled) {
        (true, _) => format!("a sample of {:.2} % of the data\n", found.sample_percent),
        (false, true) => "all requests that were recorded\n".to_string(),
        (false, false) => "all requests\n".to_string(),
    });
    text.push_str(&recorded(found.recorded_percent));
    for (bytes, percent) in &found.first_percent {
        let records = match bytes {
            0 => "its object".to_string(),
            bytes => format!("its record of {}", HumanSize(u64::from(*bytes))),
        };
        let _ = writeln!(
            text,
            "{percent:.1} % of the requests are the first for {records}: no cache helps these"
        );
    }
    text.push('\n');
    let best = found.cheapest(wish.response_ms, wish.budget);
    let worthwhile = found.worthwhile();
    // The one that is advised may be sooner by so little that it is not worth its price.
    let is_shown = |choice: &&Choice| {
        all || best == Some(*choice) || worthwhile.iter().any(|worth| std::ptr::eq(*worth, *choice))
    };
    let shown: Vec<&Choice> = found.choices.iter().filter(is_shown).collect();
    text.push_str(&table(&shown, best, plan, &found.currency, sampled, room()));
    if !all {
        let responds = match worthwhile.len() {
            1 => "1 responds".to_string(),
            count => format!("{count} respond"),
        };
        let all = found.choices.len();
        let choices = things(all as u64, "choice");
        let _ = writeln!(
            text,
            "\nOf {choices} {responds} sooner than all cheaper ones by 1 % or more."
        );
    }
    let is_above = |choice: &&Choice| {
        choice.response_99_ms.is_some_and(|limit| choice.response_ms > Some(limit))
    };
    let rare = match shown.iter().any(is_above) {
        true => "Where MEAN is above P99, fewer than 1 of 100 requests are slow, but very slow.\n",
        false => "",
    };
    let advice = advice(found, best, wish) + rare;
    for line in advice.lines().flat_map(|line| filled(line, width())) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn table(
    shown: &[&Choice],
    best: Option<&Choice>,
    plan: &SizingPlan,
    currency: &str,
    sampled: bool,
    room: usize,
) -> String {
    let several_policies = plan.policies.len() > 1;
    let several_records = plan.record_bytes.len() > 1;
    let size = |bytes: u64| match bytes {
        0 => "-".to_string(),
        bytes => HumanSize(bytes).to_string(),
    };
    let time = |ms: Option<f64>| ms.map_or("-".to_string(), |ms| crate::format::seconds(ms / 1e3));
    let mark = |choice: &Choice| if best == Some(choice) { "*" } else { "" }.to_string();
    let column = |heading: &str, cell: &dyn Fn(&Choice) -> String| {
        (heading.to_string(), shown.iter().map(|choice| cell(choice)).collect::<Vec<_>>())
    };
    let mut columns = vec![
        column("", &mark),
        column(&format!(">{currency}"), &|choice| format!("{:.2}", choice.price)),
        column(">RAM", &|choice| size(choice.ram_bytes)),
        column(">INDEX", &|choice| size(choice.index_bytes)),
        column(">FLASH", &|choice| size(choice.flash_bytes)),
        column("DEVICE", &|choice| choice.flash_device.clone().unwrap_or("-".to_string())),
        column(">DISKS", &|choice| choice.disks.to_string()),
    ];
    if several_policies {
        columns.push(column("POLICY", &|choice| choice.policy.to_string()));
    }
    if several_records {
        let record = |choice: &Choice| size(choice.record_bytes.map_or(0, u64::from));
        columns.push(column(">RECORD", &record));
    }
    columns.push(column(">IN RAM", &|choice| format!("{:.1} %", choice.ram_hit_percent)));
    columns.push(column(">ON FLASH", &|choice| format!("{:.1} %", choice.flash_hit_percent)));
    if sampled {
        let points = |points: f64| format!("{points:.1}");
        let error = |choice: &Choice| choice.error_points.map_or("-".to_string(), points);
        columns.push(column(">+-", &error));
    }
    columns.extend([
        column(">MEAN", &|choice| time(choice.response_ms)),
        column(">P99", &|choice| time(choice.response_99_ms)),
        column(">MAX REQ/S", &|choice| format!("{:.0}", choice.requests_per_s_max)),
        column(">FLASH LASTS", &|choice| choice.flash_life_years.map_or("-".to_string(), life)),
    ]);
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| heading.as_str()).collect();
    let mut table = Table::new(&headings);
    for row in 0..shown.len() {
        table.row(columns.iter().map(|(_, cells)| cells[row].clone()).collect());
    }
    let people = Form { script: false, exact: false, json: false };
    table.render_within(people, room, &LEFT_OUT_FIRST)
}

/// How long flash lasts, in a unit that leaves more than nothing.
fn life(years: f64) -> String {
    match years * DAYS_PER_YEAR {
        _ if years > 100.0 => "> 100 years".to_string(),
        _ if years >= 1.0 => format!("{years:.1} years"),
        days if days >= 1.0 => format!("{days:.0} days"),
        _ => "< 1 day".to_string(),
    }
}

fn advice(found: &Sizing, best: Option<&Choice>, wish: &Wish) -> String {
    let least = found.choices.iter().find(|choice| choice.response_ms.is_some());
    let Some(least) = least else {
        return "No choice keeps up with this load: add disks, flash or RAM.\n".to_string();
    };
    let Some(best) = best else {
        let quickest = found.worthwhile().last().and_then(|choice| choice.response_ms);
        let quickest = quickest.map_or(String::new(), |ms| {
            format!("; the quickest of all takes {}", crate::format::seconds(ms / 1e3))
        });
        let cheapest = found.choices.iter().filter(|choice| choice.response_ms.is_some());
        let cheapest = cheapest.map(|choice| choice.price).min_by(f64::total_cmp);
        let cheapest = cheapest.map_or(String::new(), |price| {
            format!("; the cheapest that keeps up costs {price:.2}")
        });
        return format!("No choice fulfils the wish{cheapest}{quickest}.\n");
    };
    let why = match (wish.response_ms, wish.budget) {
        (Some(_), _) => "the cheapest that responds in time",
        (None, Some(_)) => "the quickest for the money",
        (None, None) => "the quickest of all; name a --response or a --budget",
    };
    let mut text = format!("* {why}");
    if least.response_ms > best.response_ms {
        let factor = least.response_ms.unwrap_or(0.0) / best.response_ms.unwrap_or(f64::INFINITY);
        let (more, currency) = (best.price - least.price, &found.currency);
        let _ = write!(
            text,
            ": {factor:.1} times as quick as the cheapest of all, for {more:.2} {currency} more"
        );
    }
    text.push_str(".\n");
    let brings_little = |choice: &Choice| match (choice.response_ms, choice.uncached_ms) {
        (Some(cached), Some(uncached)) => uncached < cached * WORTH_BUYING,
        (cached, _) => cached.is_none(),
    };
    if found.choices.iter().all(brings_little) {
        text.push_str(
            "Do not buy a cache for this load: even the largest brings next to nothing.\n",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers() {
        let time = |text| milliseconds(text).expect("it is a time");
        assert_eq!((time("2ms"), time("500us"), time("1.5 s")), (2.0, 0.5, 1500.0));
        for text in ["", "2", "-1ms", "0ms", "infs", "ms"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
        assert!(positive("--rate", Some("-3")).is_err() && positive("--rate", Some("x")).is_err());
        assert_eq!(record_bytes("16K").expect("a size"), Some(16_384));
        for word in ["0", "512", "5000", "2M", "1G", "x"] {
            assert!(record_bytes(word).is_err(), "{word}");
        }
    }

    fn choice(price: f64, response_ms: f64, uncached_ms: f64) -> Choice {
        Choice {
            price,
            policy: "auto",
            record_bytes: None,
            ram_bytes: 1 << 30,
            index_bytes: 0,
            flash_device: None,
            flash_bytes: 0,
            disks: 1,
            ram_hit_percent: 50.0,
            flash_hit_percent: 0.0,
            error_points: None,
            response_ms: Some(response_ms),
            uncached_ms: Some(uncached_ms),
            response_99_ms: None,
            requests_per_s_max: 100.0,
            flash_written_bytes: 0.0,
            flash_life_years: None,
        }
    }

    fn told(choices: Vec<Choice>) -> String {
        let found = Sizing {
            trace: "x".to_string(),
            currency: "USD".to_string(),
            recorded_percent: 100.0,
            sample_percent: 100.0,
            first_percent: std::collections::BTreeMap::new(),
            choices,
        };
        people(&found, &plan(), &Wish { response_ms: None, budget: None }, false)
    }

    fn plan() -> SizingPlan {
        SizingPlan {
            policies: Vec::new(),
            record_bytes: Vec::new(),
            ram: Vec::new(),
            flash: Vec::new(),
            flash_devices: Vec::new(),
            without_flash: true,
            disk: String::new(),
            disks: Vec::new(),
            requests_per_s: None,
            sample_percent: None,
            prices: Prices::shipped().expect("they can be read"),
        }
    }

    #[test]
    fn a_cache_is_compared_with_none_and_the_quickest_is_shown() {
        let one = told(vec![choice(1.0, 2.0, 6.0)]);
        assert!(one.contains("50.0 %") && !one.contains("Do not buy"), "{one}");
        let none = told(vec![choice(1.0, 5.9, 6.0), choice(2.0, 5.8, 6.0)]);
        assert!(none.contains("Do not buy"), "{none}");
        // Quicker by less than is worth its price, and yet the one that the legend names.
        let close = told(vec![choice(1.0, 2.0, 6.0), choice(2.0, 1.99, 6.0)]);
        assert!(close.contains("\n*") && close.contains("2.00"), "{close}");
        assert!(close.contains("\nOf 2 choices 1 responds sooner"), "{close}");
        assert!(!close.contains("above P99"), "{close}");
        let rare = Choice { response_99_ms: Some(1.9), ..choice(1.0, 2.0, 6.0) };
        let rare = told(vec![rare]);
        assert!(rare.contains("Of 1 choice 1 responds") && rare.contains("above P99"), "{rare}");
    }

    #[test]
    fn a_narrow_table_leaves_out_what_can_be_missed() {
        let choice = choice(1234.0, 2.0, 6.0);
        let shown = [&choice];
        let plan = plan();
        let lines = |room| table(&shown, None, &plan, "USD", true, room);
        let (narrow, wide) = (lines(80), lines(usize::MAX));
        assert!(wide.contains("INDEX") && wide.contains("P99") && !wide.contains("Left out"));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(narrow.contains("Left out, for a wider terminal or --json: INDEX"), "{narrow}");
        assert!(narrow.contains("MEAN") && narrow.contains("FLASH LASTS"), "{narrow}");
    }

    #[test]
    fn lives_are_never_nothing() {
        let years = [200.0, 3.21, 0.5, 0.001, 1e-9].map(life);
        assert_eq!(years, ["> 100 years", "3.2 years", "183 days", "< 1 day", "< 1 day"]);
    }
}
