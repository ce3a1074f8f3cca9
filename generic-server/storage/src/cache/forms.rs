//! Other forms of an object (another version, protobuf, a Table row), kept beside it while there is room.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock, Weak},
};

use bytes::Bytes;

use super::{object::Object, sync::Mutex};

/// Names a form: the server gives each combination of version, media type and transformation a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FormId(pub u32);

impl FormId {
    /// The JSON that the cache holds anyway.
    pub const JSON: FormId = FormId(0);
}

/// An object's other forms; costs two words until the first is made.
#[derive(Default)]
pub(super) struct Forms(OnceLock<Box<Made>>);

type Made = Mutex<Vec<(FormId, Bytes)>>;

impl Forms {
    pub(super) fn get(&self, id: FormId) -> Option<Bytes> {
        self.0.get()?.lock().iter().find(|(i, _)| *i == id).map(|(_, b)| b.clone())
    }

    /// Keeps `bytes`, unless somebody was faster: then theirs are answered, so that all share one copy.
    fn keep(&self, id: FormId, bytes: Bytes) -> Result<Bytes, Bytes> {
        let mut forms = self.0.get_or_init(Default::default).lock();
        if let Some((_, theirs)) = forms.iter().find(|(i, _)| *i == id) {
            return Err(theirs.clone());
        }
        forms.push((id, bytes.clone()));
        Ok(bytes)
    }

    fn forget(&self, id: FormId) {
        if let Some(forms) = self.0.get() {
            let mut forms = forms.lock();
            forms.retain(|(i, _)| *i != id);
            forms.shrink_to_fit();
        }
    }
}

/// What the forms of all objects of a cache may weigh together; the oldest make room.
pub(super) struct FormBudget {
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    bytes: usize,
    oldest_first: VecDeque<(Weak<Object>, FormId, usize)>,
}

impl FormBudget {
    pub(super) fn new(limit: usize) -> Self {
        FormBudget { limit, kept: Mutex::default() }
    }

    /// The form `id` of `object`, made by `make` if it is not kept. Errors are not kept.
    pub(super) fn form<E>(
        &self,
        object: &Arc<Object>,
        id: FormId,
        make: impl FnOnce(&Object) -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        if let Some(bytes) = object.forms.get(id) {
            return Ok(bytes);
        }
        let bytes = make(object)?;
        // One form may not sweep out all the others.
        if bytes.len() > self.limit / 4 {
            return Ok(bytes);
        }
        match object.forms.keep(id, bytes) {
            Ok(bytes) => {
                self.count(object, id, bytes.len());
                Ok(bytes)
            }
            Err(theirs) => Ok(theirs),
        }
    }

    fn count(&self, object: &Arc<Object>, id: FormId, size: usize) {
        let mut dropped = Vec::new();
        {
            let mut kept = self.kept.lock();
            kept.bytes += size;
            kept.oldest_first.push_back((Arc::downgrade(object), id, size));
            while kept.bytes > self.limit {
                let Some((object, id, size)) = kept.oldest_first.pop_front() else { break };
                kept.bytes -= size;
                dropped.push((object, id));
            }
        }
        for (object, id) in dropped {
            if let Some(object) = object.upgrade() {
                object.forms.forget(id);
            }
        }
    }

    /// Bytes of forms kept (those of objects that are gone count until their turn comes).
    pub(super) fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::cache::Decoded;

    fn object(n: usize) -> Arc<Object> {
        Arc::new(Object::new(format!("/r/{n}").into(), 1, 1, false, Decoded::default()))
    }

    fn form(budget: &FormBudget, object: &Arc<Object>, id: u32, size: usize, made: &mut usize) -> usize {
        let make = |_: &Object| {
            *made += 1;
            Ok::<_, Infallible>(Bytes::from(vec![0; size]))
        };
        budget.form(object, FormId(id), make).unwrap().len()
    }

    #[test]
    fn a_form_is_made_once_while_there_is_room_and_the_oldest_makes_room() {
        let budget = FormBudget::new(1000);
        let objects: Vec<_> = (0..6).map(object).collect();
        let mut made = 0;
        for o in &objects[..4] {
            assert_eq!(form(&budget, o, 1, 200, &mut made), 200);
        }
        assert_eq!(form(&budget, &objects[0], 1, 200, &mut made), 200);
        assert_eq!((made, budget.bytes()), (4, 800));
        form(&budget, &objects[4], 1, 200, &mut made);
        form(&budget, &objects[5], 1, 200, &mut made);
        assert_eq!((made, budget.bytes()), (6, 1000));
        form(&budget, &objects[5], 1, 200, &mut made);
        assert_eq!(made, 6, "still kept");
        form(&budget, &objects[0], 1, 200, &mut made);
        assert_eq!(made, 7, "had made room");
    }

    #[test]
    fn a_form_too_large_for_the_budget_is_not_kept() {
        let budget = FormBudget::new(1000);
        let (o, mut made) = (object(1), 0);
        form(&budget, &o, 1, 300, &mut made);
        form(&budget, &o, 1, 300, &mut made);
        assert_eq!((made, budget.bytes()), (2, 0));
    }

    #[test]
    fn a_failure_is_reported_and_not_kept() {
        let budget = FormBudget::new(1000);
        let o = object(1);
        assert_eq!(budget.form(&o, FormId(1), |_| Err("no")), Err("no"));
        assert_eq!(
            budget.form(&o, FormId(1), |_| Ok::<_, &str>(Bytes::from_static(b"x"))),
            Ok(Bytes::from_static(b"x"))
        );
    }
}
