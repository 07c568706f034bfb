//! Lets the generated objects name each other: the first of one watch the first of the other, and so on.

use std::collections::BTreeMap;

use super::sample::Sample;
use super::watch_references::{NameForm, Place};
use super::{WatchedKind, kind_fields, select_the_same};

/// Objects name those of other watches where a watch looks for names, and in fields that are named as the other kind.
pub(super) fn connect(samples: &mut [(&WatchedKind, Vec<Sample>)], watched: &[&WatchedKind]) {
    let groups: Vec<Vec<Address>> = samples.iter().map(|(_, samples)| addresses(samples)).collect();
    let group_of =
        |watched: &WatchedKind| samples.iter().position(|(other, _)| select_the_same(other, watched));
    let by_name: BTreeMap<&str, usize> =
        watched.iter().filter_map(|watched| Some((watched.name.as_str(), group_of(watched)?))).collect();
    let mut links: Vec<Vec<(Place, NameForm, usize)>> = Vec::new();
    for (watched, _) in samples.iter() {
        let mut found = Vec::new();
        if let Some(schema) = &watched.kind.schema {
            for (group, (other, _)) in samples.iter().enumerate() {
                if other.kind.resource != watched.kind.resource {
                    let fields = kind_fields::fields(schema, &other.kind.resource.kind);
                    found.extend(fields.into_iter().map(|path| (Place::Field(path), NameForm::Name, group)));
                }
            }
        }
        // What the plugin itself says of a field comes last, because it replaces what was there.
        for reference in &watched.references {
            let group = by_name.get(reference.watch.as_str());
            found.extend(group.map(|group| (reference.place.clone(), reference.form, *group)));
        }
        links.push(found);
    }
    for ((watched, samples), links) in samples.iter_mut().zip(links) {
        for (index, sample) in samples.iter_mut().enumerate().filter(|(_, sample)| sample.is_generated) {
            for (place, form, group) in &links {
                let others = groups.get(*group).map_or(&[][..], Vec::as_slice);
                if let Some(Address { namespace, name }) = others.get(index).or(others.last()) {
                    sample.contain(watched, place, &form.text(namespace, name));
                }
            }
        }
    }
}

/// Where an object is.
struct Address {
    namespace: String,
    name: String,
}

fn addresses(samples: &[Sample]) -> Vec<Address> {
    let address = |sample: &Sample| Address {
        namespace: sample.manifest.namespace.clone(),
        name: sample.manifest.name.clone(),
    };
    samples.iter().map(address).collect()
}
