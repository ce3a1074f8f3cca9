//! Table columns of devices and claims.

use generic_server::printer::{AGE, Doc, NAME, Table, age, is_deleting, items, name, since, text, text_at};

/// Kinds of which a table shows no more than that they are there.
pub(super) const NAMED: Table = Table::new(&[NAME, AGE], |object, now| vec![name(object), age(object, now)]);

/// Claims.
pub(super) const CLAIMS: Table = Table::new(
    &[NAME, text("State", Doc::Text("A summary of the current state (allocated, pending, reserved, etc.).")), AGE],
    |claim, now| {
        let allocated = claim.at(&["status", "allocation"]).is_some_and(|a| !a.is_null());
        let reserved = !items(claim, &["status", "reservedFor"]).is_empty();
        let states = [
            (is_deleting(claim), "deleted"),
            (!allocated && !is_deleting(claim), "pending"),
            (allocated, "allocated"),
            (allocated && reserved, "reserved"),
        ];
        let states = states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state);
        vec![name(claim), states.collect::<Vec<_>>().join(",").into(), age(claim, now)]
    },
);

/// Slices of devices.
pub(super) const SLICES: Table = Table::new(
    &[
        NAME,
        text("Node", Doc::Of("resource.v1.ResourceSliceSpec", "nodeName")),
        text("Driver", Doc::Of("resource.v1.ResourceSliceSpec", "driver")),
        text("Pool", Doc::Of("resource.v1.ResourcePool", "name")),
        AGE,
    ],
    |slice, now| {
        vec![
            name(slice),
            text_at(slice, &["spec", "nodeName"]),
            text_at(slice, &["spec", "driver"]),
            text_at(slice, &["spec", "pool", "name"]),
            age(slice, now),
        ]
    },
);

/// Taints that an administrator gives devices.
pub(super) const TAINT_RULES: Table = Table::new(
    &[
        NAME,
        text("Key", Doc::Of("resource.v1.DeviceTaint", "key")),
        text("Value", Doc::Of("resource.v1.DeviceTaint", "value")),
        text("Effect", Doc::Of("resource.v1.DeviceTaint", "effect")),
        text("TimeAdded", Doc::Of("resource.v1.DeviceTaint", "timeAdded")),
        AGE,
    ],
    |rule, now| {
        let taint = |member| text_at(rule, &["spec", "taint", member]);
        let added = since(rule.str_at(&["spec", "taint", "timeAdded"]), now);
        vec![name(rule), taint("key"), taint("value"), taint("effect"), added.into(), age(rule, now)]
    },
);
