use std::io::IsTerminal;

/// Eighths of a block, so that a bar's end is as fine as its value.
const EIGHTHS: [char; 8] = [
    '\u{258f}', '\u{258e}', '\u{258d}', '\u{258c}', '\u{258b}', '\u{258a}', '\u{2589}', '\u{2588}',
];
const FULL: char = '\u{2588}';

/// Whether the terminal shows more than ASCII: as the locale says.
pub(crate) fn is_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Whether standard output takes colours: it is a terminal, and nobody has said no.
pub(crate) fn is_coloured() -> bool {
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

/// Text in a colour of the terminal (31 red, 32 green, 33 yellow, 36 cyan), if it takes colours.
pub(crate) fn coloured(text: &str, colour: u8) -> String {
    match is_coloured() {
        true => format!("\u{1b}[{colour}m{text}\u{1b}[0m"),
        false => text.to_string(),
    }
}

/// Columns of the terminal; 80 where there is none.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0).clamp(40, 160))
}

/// Characters of a line that is not to be broken: what a terminal has, and any number for a pipe.
pub(crate) fn room() -> usize {
    if std::io::stdout().is_terminal() { width() } else { usize::MAX }
}

/// A bar that fills `share` (0 to 1) of `width` characters.
pub(crate) fn bar(share: f64, width: usize, unicode: bool) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    if !unicode {
        let full = (share * width as f64).round() as usize;
        return "#".repeat(full) + &".".repeat(width - full);
    }
    let eighths = (share * width as f64 * 8.0).round() as usize;
    let mut text: String = std::iter::repeat_n(FULL, eighths / 8).collect();
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8 - 1]);
    }
    let used = text.chars().count();
    text + &" ".repeat(width - used)
}

/// The length of `value` on a logarithmic scale from `least` to `greatest`, as a share.
pub(crate) fn logarithmic(value: f64, least: f64, greatest: f64) -> f64 {
    match value > 0.0 && least > 0.0 && greatest > least {
        true => (value / least).ln() / (greatest / least).ln(),
        false => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_their_share_and_keep_their_width() {
        assert_eq!(bar(0.5, 10, false), "#####.....");
        for share in [-1.0, 0.0, 0.031, 0.5, 0.99, 1.0, 7.0, f64::NAN] {
            assert_eq!(bar(share, 10, true).chars().count(), 10, "{share}");
            assert_eq!(bar(share, 10, false).chars().count(), 10, "{share}");
        }
        assert_eq!(bar(1.0, 3, true), "\u{2588}\u{2588}\u{2588}");
    }

    #[test]
    fn a_logarithmic_scale_gives_each_factor_the_same_length() {
        assert_eq!(logarithmic(1.0, 1.0, 100.0), 0.0);
        assert!((logarithmic(10.0, 1.0, 100.0) - 0.5).abs() < 1e-9);
        assert_eq!(logarithmic(100.0, 1.0, 100.0), 1.0);
    }
}
