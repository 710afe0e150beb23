//! The functions that let others tick.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::function::{Loaded, Written, check_outputs, check_timer, schedule};
use super::{Function, FunctionPollers};
use crate::config::fault::{Faults, Place};
use crate::config::{FanOutFunction, Fault, PollTrigger, Settings};
use crate::schedule::Schedule;

/// A fan-out before it is known what it fans out to.
#[derive(Debug, Clone)]
pub(super) struct Half {
    file: PathBuf,
    function: String,
    schedule: Schedule,
}

pub(super) fn parse(written: &Written, settings: &Settings) -> Result<Half, Vec<Fault>> {
    let mut faults = Faults::of(&written.file);
    let parsed = half(written, settings, &mut faults);
    match parsed {
        Some(half) if faults.is_empty() && written.faults.is_empty() => Ok(half),
        _ => Err(faults.into_vec()),
    }
}

fn half(written: &Written, settings: &Settings, faults: &mut Faults) -> Option<Half> {
    let raw = written.raw.as_ref()?;
    let root = Place::root();
    for (key, is_there) in [
        ("poller", raw.poller.is_some()),
        ("pollers", raw.pollers.is_some()),
    ] {
        if is_there {
            let hint = "give the pollers a directory of their own, with a queueTrigger, and name it in fan_out";
            faults.add(&root.key(key), "stands beside fan_out", hint);
        }
    }
    check_timer(&raw.bindings, faults);
    check_outputs(&raw.bindings, faults);
    let Some(schedule) = schedule(&raw.bindings, settings) else {
        let problem = "has no schedule that can be read, and messages live for one interval of it";
        let hint = "write it like */15 * * * * *";
        faults.add(&root.key("bindings"), problem, hint);
        return None;
    };
    Some(Half {
        file: written.file.clone(),
        function: raw.fan_out.as_ref()?.function.clone(),
        schedule,
    })
}

/// Once all functions are known: to whom each fan-out puts messages. Who gets them ticks by its schedule.
pub(super) fn connect(functions: &mut BTreeMap<String, Function>, halves: Vec<(String, Half)>) {
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    for (name, half) in halves {
        let mut faults = Faults::of(&half.file);
        let at = Place::root().key("fan_out").key("function");
        let other = taken.insert(half.function.clone(), name.clone());
        let connected = match (functions.get_mut(&half.function), other) {
            (_, Some(other)) => {
                let problem = format!("is let tick by {other} already: {}", half.function);
                faults.add(&at, problem, "keep one of the two");
                None
            }
            (Some(Function::Pollers(target)), None) => fan_out(&name, &half, target),
            (_, None) => None,
        };
        if connected.is_none() && faults.is_empty() {
            let problem = format!(
                "is no good function with pollers and a queueTrigger: {}",
                half.function
            );
            let hint = "name the directory of such a function of this app, as function-templates/shard has it";
            faults.add(&at, problem, hint);
        }
        let function = match connected {
            Some(function) => Function::FanOut(function),
            None => Function::Faulty(faults.into_vec()),
        };
        functions.insert(name, function);
    }
}

fn fan_out(name: &str, half: &Half, target: &mut FunctionPollers) -> Option<FanOutFunction> {
    let PollTrigger::Queue { queue, .. } = &target.trigger else {
        return None;
    };
    target.schedule = Some(half.schedule.clone());
    Some(FanOutFunction {
        name: name.to_owned(),
        schedule: half.schedule.clone(),
        queue: queue.clone(),
        pollers: target
            .pollers
            .iter()
            .map(|poller| poller.name.clone())
            .collect(),
    })
}

pub(super) fn halves(loaded: &[Loaded]) -> Vec<(String, Half)> {
    let halves = loaded.iter();
    halves
        .filter_map(|loaded| Some((loaded.name.clone(), loaded.fans_out.clone()?)))
        .collect()
}
