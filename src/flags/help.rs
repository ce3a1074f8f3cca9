//! The help text: the table, section by section.

use std::fmt::Write as _;

use generic_server::features::help_lines;

use super::{
    FLAGS, Kind,
    table::{Effect, Flag, Section},
};

impl Section {
    /// Its heading.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ours => "Own",
            Self::Generic => "Generic",
            Self::Etcd => "Etcd",
            Self::SecureServing => "Secure serving",
            Self::Auditing => "Auditing",
            Self::Features => "Features",
            Self::Authentication => "Authentication",
            Self::Authorization => "Authorization",
            Self::ApiEnablement => "API enablement",
            Self::EgressSelector => "Egress selector",
            Self::Admission => "Admission",
            Self::Metrics => "Metrics",
            Self::Logs => "Logs",
            Self::Traces => "Traces",
            Self::Misc => "Misc",
            Self::Global => "Global",
        }
    }
}

/// What `--help` prints.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "The Kubernetes API server. Without flags it keeps everything in ./data, makes its own certificates\n\
         and a kubeconfig for its admin, and serves on port 6443.\n\n\
         Usage:\n  kube-apiserver [flags]\n",
    );
    let mut section = None;
    for flag in FLAGS {
        if section != Some(flag.section) {
            section = Some(flag.section);
            let _ = write!(text, "\n{} flags:\n\n", flag.section.title());
        }
        line(&mut text, flag);
    }
    text
}

fn line(text: &mut String, flag: &Flag) {
    let start = match flag.name {
        "help" => "  -h, --help".to_owned(),
        "v" => "  -v, --v".to_owned(),
        name => format!("      --{name}"),
    };
    // The version flag's label carries its own `=`-syntax.
    let start = match flag.kind.label() {
        "" => start,
        "version[=true]" => format!("{start}[=true]"),
        label => format!("{start} {label}"),
    };
    let _ = write!(text, "{start}\n              {}", flag.help);
    if !flag.default.is_empty() && flag.default != "[]" {
        let _ = write!(text, " (default {})", flag.default);
    }
    text.push_str(match flag.effect {
        Effect::Used => "",
        Effect::NotHere => " [no effect in this server]",
    });
    text.push('\n');
    if flag.kind == Kind::FeatureGates {
        for gate in help_lines() {
            let _ = writeln!(text, "                {gate}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_flag_once_under_its_section() {
        let text = help();
        for flag in FLAGS {
            let lines = text.lines().filter(|line| {
                let words: Vec<_> = line.split([' ', '=', '[']).filter(|word| !word.is_empty()).collect();
                line.starts_with(' ') && words.iter().take(2).any(|word| *word == format!("--{}", flag.name))
            });
            assert_eq!(lines.count(), 1, "--{}", flag.name);
        }
        assert!(text.contains("\nSecure serving flags:\n\n      --bind-address ip\n"));
        assert!(text.contains("(default 6443)"));
    }

    #[test]
    fn the_help_names_every_gate_that_may_be_set() {
        let text = help();
        for line in [
            "kube:APIResponseCompression=true|false (BETA - default=true)",
            "kube:AllAlpha=true|false (ALPHA - default=false)",
            "kube:ShardedListAndWatch=true|false (ALPHA - default=false)",
        ] {
            assert_eq!(text.matches(&format!(" {line}\n")).count(), 1, "{line}");
        }
        assert!(!text.contains("SidecarContainers"), "what is stable");
    }
}
