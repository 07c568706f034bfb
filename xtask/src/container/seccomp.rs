//! Seccomp profiles as programs for the kernel, and what one of them allows beyond another. Pure.
//!
//! Of the entries of a profile, those apply that a container without any capability gets on this machine's architecture.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use seccompiler::{TargetArch, compile_from_json, sock_filter};
use serde_json::{Value, json};

/// The one call that the profile refuses with a code of its own, so that a C library tries the older call. Its number is the same on all
/// architectures.
const CLONE3: (&str, u32) = ("clone3", 435);
/// The actions of a BPF program: `SECCOMP_RET_ERRNO`, without its code.
const RETURN_ERRNO: u32 = 0x0005_0000;

/// What a profile says about a container without capabilities.
#[derive(Debug, Default, PartialEq)]
struct Rules {
    /// The code of an error for all calls that are not allowed.
    refused_with: u64,
    /// Rules of allowed calls, for the compiler.
    allowed: Vec<Value>,
    /// The code of the error for [`CLONE3`].
    clone3_refused_with: Option<u32>,
}

/// Returns the instructions of a BPF program in this machine's byte order.
///
/// # Errors
/// Errors if the profile has something that this function does not know.
pub(super) fn program(profile: &Value) -> Result<Vec<u8>> {
    let arch = std::env::consts::ARCH;
    let target: TargetArch = arch
        .try_into()
        .with_context(|| format!("there is no seccomp profile for the architecture {arch}"))?;
    let mut rules = rules(profile, arch)?;
    // A name of another architecture is no call here.
    let is_known = |rule: &Value| compile(std::slice::from_ref(rule), 1, target).is_ok();
    rules.allowed.retain(is_known);
    let clone3 = json!({"syscall": CLONE3.0});
    if rules.clone3_refused_with.is_some() {
        // The instructions in front of the others have refused it.
        rules.allowed.push(clone3);
    }
    let compiled = compile(&rules.allowed, rules.refused_with, target)?;
    let mut instructions = Vec::new();
    if let Some(code) = rules.clone3_refused_with {
        // Loads the number of the call, skips one instruction unless it is clone3, and refuses it.
        let instruction = |code, jf, k| sock_filter { code, jt: 0, jf, k };
        instructions.extend([
            instruction(0x20, 0, 0),
            instruction(0x15, 1, CLONE3.1),
            instruction(0x06, 0, RETURN_ERRNO | code),
        ]);
    }
    instructions.extend(compiled);
    let bytes = |instruction: sock_filter| {
        let mut bytes = instruction.code.to_ne_bytes().to_vec();
        bytes.extend([instruction.jt, instruction.jf]);
        bytes.extend(instruction.k.to_ne_bytes());
        bytes
    };
    Ok(instructions.into_iter().flat_map(bytes).collect())
}

/// Returns the calls that a profile allows and another one refuses, in order. A call with conditions in the other profile alone counts, too.
/// Conditions are not compared with each other.
///
/// # Errors
/// Errors if one of the profiles has something that this function does not know.
pub(super) fn calls_beyond(profile: &Value, other: &Value) -> Result<Vec<String>> {
    let arch = std::env::consts::ARCH;
    let calls = |profile: &Value| -> Result<BTreeMap<String, bool>> {
        let mut calls = BTreeMap::new();
        for rule in rules(profile, arch)?.allowed {
            let name = rule["syscall"].as_str().unwrap_or_default().to_owned();
            *calls.entry(name).or_default() |= rule["args"].is_null();
        }
        Ok(calls)
    };
    let allowed = calls(other)?;
    let is_beyond = |name: &str, is_unconditional: bool| {
        allowed.get(name).is_none_or(|&is_allowed_always| is_unconditional && !is_allowed_always)
    };
    let calls = calls(profile)?.into_iter();
    Ok(calls.filter(|(name, always)| is_beyond(name, *always)).map(|(name, _)| name).collect())
}

fn compile(allowed: &[Value], refused_with: u64, target: TargetArch) -> Result<Vec<sock_filter>> {
    let filter =
        json!({"mismatch_action": {"errno": refused_with}, "match_action": "allow", "filter": allowed});
    let text = json!({"profile": filter}).to_string();
    let mut programs = compile_from_json(text.as_bytes(), target).context("compile the seccomp profile")?;
    programs.remove("profile").context("the compiler returned no seccomp program")
}

/// Returns what the profile says about a container without capabilities on an architecture.
fn rules(profile: &Value, arch: &str) -> Result<Rules> {
    // The profile has Go's names of architectures.
    let arch = match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    ensure!(
        profile["defaultAction"] == "SCMP_ACT_ERRNO",
        "the profile's default is {}",
        profile["defaultAction"]
    );
    let mut rules =
        Rules { refused_with: profile["defaultErrnoRet"].as_u64().unwrap_or(1), ..Rules::default() };
    for entry in profile["syscalls"].as_array().context("the profile has no calls")? {
        let (includes, excludes) = (&entry["includes"], &entry["excludes"]);
        let has = |list: &Value| list.as_array().is_some_and(|list| list.iter().any(|name| name == arch));
        if !is_empty(&includes["caps"])
            || (!is_empty(&includes["arches"]) && !has(&includes["arches"]))
            || has(&excludes["arches"])
        {
            continue;
        }
        let names = entry["names"].as_array().into_iter().flatten();
        match entry["action"].as_str() {
            Some("SCMP_ACT_ALLOW") => {
                let conditions = entry["args"].as_array().into_iter().flatten().map(condition);
                let conditions = conditions.collect::<Result<Vec<_>>>()?;
                rules.allowed.extend(names.map(|name| match conditions.as_slice() {
                    [] => json!({"syscall": name}),
                    conditions => json!({"syscall": name, "args": conditions}),
                }));
            }
            Some("SCMP_ACT_ERRNO") => {
                let names: Vec<_> = names.collect();
                ensure!(names == [CLONE3.0], "the profile refuses {names:?} with a code of their own");
                let code = entry["errnoRet"].as_u64().and_then(|code| u16::try_from(code).ok());
                rules.clone3_refused_with = Some(code.context("errnoRet is no code of an error")?.into());
            }
            action => bail!("the profile has the action {action:?}"),
        }
    }
    Ok(rules)
}

fn condition(argument: &Value) -> Result<Value> {
    let (value, second) = (&argument["value"], argument["valueTwo"].as_u64().unwrap_or_default());
    let (operator, value) = match argument["op"].as_str() {
        Some("SCMP_CMP_EQ") => (json!("eq"), value.clone()),
        Some("SCMP_CMP_NE") => (json!("ne"), value.clone()),
        Some("SCMP_CMP_LT") => (json!("lt"), value.clone()),
        Some("SCMP_CMP_LE") => (json!("le"), value.clone()),
        Some("SCMP_CMP_GT") => (json!("gt"), value.clone()),
        Some("SCMP_CMP_GE") => (json!("ge"), value.clone()),
        Some("SCMP_CMP_MASKED_EQ") => (json!({"masked_eq": value}), second.into()),
        operator => bail!("the profile compares by {operator:?}"),
    };
    Ok(json!({"index": argument["index"], "type": "qword", "op": operator, "val": value}))
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Value {
        let allow = |names: &[&str]| json!({"names": names, "action": "SCMP_ACT_ALLOW"});
        let mut clone = allow(&["clone"]);
        clone["args"] = json!([{"index": 0, "value": 512, "op": "SCMP_CMP_MASKED_EQ"}]);
        clone["excludes"] = json!({"caps": ["CAP_SYS_ADMIN"], "arches": ["s390"]});
        let mut admin = allow(&["mount"]);
        admin["includes"] = json!({"caps": ["CAP_SYS_ADMIN"]});
        let mut amd64 = allow(&["arch_prctl"]);
        amd64["includes"] = json!({"arches": ["amd64"]});
        let clone3 = json!({
            "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38, "excludes": {"caps": ["CAP_SYS_ADMIN"]},
        });
        let syscalls = [allow(&["read", "no_call_of_any_machine"]), clone, admin, amd64, clone3];
        json!({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "syscalls": syscalls})
    }

    #[test]
    fn entries_for_capabilities_and_other_architectures_do_not_apply() {
        let names = |arch: &str| {
            let rules = rules(&profile(), arch).expect("rules");
            assert_eq!((rules.refused_with, rules.clone3_refused_with), (1, Some(38)));
            let names =
                rules.allowed.iter().map(|rule| rule["syscall"].as_str().unwrap_or_default().to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names("x86_64"), ["read", "no_call_of_any_machine", "clone", "arch_prctl"]);
        assert_eq!(names("aarch64"), ["read", "no_call_of_any_machine", "clone"]);
        assert_eq!(names("s390"), ["read", "no_call_of_any_machine"]);
    }

    #[test]
    fn a_program_refuses_clone3_first() {
        let bytes = program(&profile()).expect("a program");
        let instructions: Vec<_> = bytes.chunks(8).collect();
        assert!(bytes.len().is_multiple_of(8) && instructions.len() > 10, "{bytes:?}");
        assert_eq!(instructions[1][4..], CLONE3.1.to_ne_bytes());
        assert_eq!(instructions[2][4..], (RETURN_ERRNO | 38).to_ne_bytes());
    }

    #[test]
    fn calls_beyond_a_profile_are_those_that_it_refuses_or_restricts() {
        let other = profile();
        assert_eq!(calls_beyond(&other, &other).expect("calls"), Vec::<String>::new());
        let mut wider = profile();
        wider["syscalls"][0]["names"] = json!(["ptrace", "read", "clone"]);
        assert_eq!(calls_beyond(&wider, &other).expect("calls"), ["clone", "ptrace"]);
        assert_eq!(calls_beyond(&other, &wider).expect("calls"), ["no_call_of_any_machine"]);
    }

    #[test]
    fn what_is_unknown_in_a_profile_is_an_error() {
        for (pointer, value) in [
            ("/defaultAction", json!("SCMP_ACT_ALLOW")),
            ("/syscalls", json!("all")),
            ("/syscalls/0/action", json!("SCMP_ACT_LOG")),
            ("/syscalls/1/args/0/op", json!("SCMP_CMP_OTHER")),
            ("/syscalls/4/names", json!(["read"])),
            ("/syscalls/4/errnoRet", json!(-1)),
        ] {
            let mut profile = profile();
            *profile.pointer_mut(pointer).expect(pointer) = value;
            assert!(program(&profile).is_err(), "{pointer}");
        }
    }
}
