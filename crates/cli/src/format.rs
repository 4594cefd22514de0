use std::fmt::Write;

use warmfront::HumanSize;

/// For whom output is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub(crate) struct Form {
    /// No headings, columns separated by tabs: for scripts.
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Exact numbers instead of rounded ones.
    #[arg(short = 'p')]
    pub(crate) exact: bool,
    /// JSON: for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Form {
    /// A number of bytes.
    pub(crate) fn size(self, bytes: u64) -> String {
        if self.exact { bytes.to_string() } else { HumanSize(bytes).to_string() }
    }
}

/// A share as a percentage, or a dash where there is nothing to share.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_string(),
        whole => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}

/// A number of seconds with the digits that count.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.001 => format!("{:.0} us", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds if seconds < 120.0 => format!("{seconds:.2} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 172_800.0 => format!("{:.1} h", seconds / 3600.0),
        seconds => format!("{:.1} days", seconds / 86_400.0),
    }
}

/// A number with its thousands set apart.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 record`, `2 records`.
pub(crate) fn things(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// JSON for programs, on lines for people who look as well.
pub(crate) fn json(value: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_else(|error| {
        let mut text = String::new();
        let _ = write!(text, "{{\"error\": \"{error}\"}}");
        text
    });
    text.push('\n');
    text
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) {
    use std::io::Write;
    let mut output = std::io::stdout().lock();
    if output.write_all(text.as_bytes()).and_then(|()| output.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Characters that a terminal shows of a text: colours take no room.
fn shown(text: &str) -> usize {
    let (plain, coloured) = text.split_once('\u{1b}').unwrap_or((text, ""));
    let parts = coloured.split('\u{1b}').filter_map(|part| Some(part.split_once('m')?.1));
    plain.chars().count() + parts.map(|part| part.chars().count()).sum::<usize>()
}

/// A label and its value in lines of at most `room` characters: labels take `label_width` of them,
/// and values stand below each other.
pub(crate) fn labelled(label: &str, label_width: usize, value: &str, room: usize) -> String {
    let lines = broken(value, room.saturating_sub(label_width + 1));
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    let line = |(label, value): (&str, String)| format!("{label:<label_width$} {value}\n");
    labels.zip(lines).map(line).collect()
}

/// A text in lines of at most `width` characters: cut between words, and within longer ones behind
/// a slash if there is one.
pub(crate) fn broken(text: &str, width: usize) -> Vec<String> {
    if shown(text) <= width {
        return vec![text.to_string()];
    }
    let mut lines = Vec::new();
    for line in folded(text, width) {
        let mut rest: Vec<char> = line.chars().collect();
        while width > 0 && rest.len() > width && shown(&line) > width {
            let slash = rest[..width].iter().rposition(|&letter| letter == '/');
            let end = slash.filter(|&at| at > width / 2).map_or(width, |at| at + 1);
            lines.push(rest.drain(..end).collect());
        }
        lines.push(rest.into_iter().collect());
    }
    lines
}

/// A sentence in lines of at most `width` characters, unless a word is longer.
pub(crate) fn folded(sentence: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in sentence.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && shown(&lines[last]) + shown(word) >= width {
            lines.push(word.to_string());
        } else {
            let line = &mut lines[last];
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_set_for_reading() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(123_456_789), "123,456,789");
        assert_eq!([0, 1, 2].map(|it| things(it, "row")), ["0 rows", "1 row", "2 rows"]);
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(0, 0), "-");
        assert_eq!(seconds(0.000_25), "250 us");
        assert_eq!(seconds(0.25), "250.0 ms");
        assert_eq!(seconds(90.0), "90.00 s");
        assert_eq!(seconds(3600.0), "60 min");
    }

    #[test]
    fn values_stand_below_each_other_behind_their_label() {
        assert_eq!(labelled("origin", 7, "some  words", 40), "origin  some  words\n");
        let narrow = labelled("origin", 7, "some words to fold", 19);
        assert_eq!(narrow, "origin  some words\n        to fold\n");
        assert_eq!(labelled("at", 2, "/a/path/in/it", 12), "at /a/path/\n   in/it\n");
        // A colour takes no room.
        let coloured = "\u{1b}[31mwaits\u{1b}[0m for it";
        assert_eq!(labelled("origin", 7, coloured, 20), format!("origin  {coloured}\n"));
        assert_eq!(labelled("origin", 7, coloured, 19).lines().count(), 2);
    }

    #[test]
    fn long_sentences_are_folded_between_words() {
        let lines = folded(&"word ".repeat(100), 76);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= 76));
        assert_eq!(lines.join(" ").split(' ').count(), 100);
        // A word that is longer begins no empty line, and letters count, not their bytes.
        assert_eq!(folded("/a/long/path and more", 8), ["/a/long/path", "and more"]);
        assert_eq!(folded("\u{e4}\u{e4}\u{e4} \u{e4}\u{e4}\u{e4}", 7).len(), 1);
    }
}
