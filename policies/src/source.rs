//! The policies and bindings that are in effect, compiled.
//!
//! They are read from the watch caches, so that a policy counts for the next request after the one that made it. A policy is
//! compiled by the first request that finds it, and held as long as its spec stays and a binding names it.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwapOption;
use generic_server::{offload, registry::Lister, resource::Resource};
use machinery::{
    Str, Value,
    codec::json,
    meta::{Meta, status::Status},
};
use storage::cache::Snapshot;
use tokio::sync::Mutex;

use crate::{
    activation::Variable,
    compile::Compiler,
    conditions::Conditions,
    manifest::{self, Loaded, Static},
    matching::{Matches, is_of_policies},
    params::{ParamKind, ParamRef},
};

/// What one kind of policies does with the writes that it is about.
pub(crate) trait Work: Send + Sync + Sized {
    /// Compiles it.
    fn of(spec: &Value, compiler: &mut Compiler) -> Self;
}

/// A compiled policy.
pub(crate) struct Policy<W> {
    pub(crate) name: Str,
    /// What cannot be evaluated is a refusal.
    pub(crate) fail: bool,
    pub(crate) matches: Matches,
    pub(crate) param_kind: Option<ParamKind>,
    pub(crate) conditions: Conditions,
    pub(crate) variables: Vec<Variable>,
    pub(crate) work: W,
}

impl<W: Work> Policy<W> {
    /// Compiles a policy.
    pub(crate) fn of(policy: &Value) -> Self {
        let spec = policy.get("spec").unwrap_or(&Value::Null);
        let param_kind = ParamKind::of(spec);
        let mut compiler = Compiler::new(param_kind.is_some(), true);
        let variables = Variable::all_of(spec, &mut compiler);
        Policy {
            name: Meta::of(policy).name().into(),
            fail: spec.str_at(&["failurePolicy"]) != Some("Ignore"),
            matches: Matches::of(spec.get("matchConstraints").unwrap_or(&Value::Null)),
            conditions: Conditions::of(spec, param_kind.is_some()),
            param_kind,
            variables,
            work: W::of(spec, &mut compiler),
        }
    }
}

/// A binding.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) name: Str,
    policy: Str,
    pub(crate) matches: Option<Matches>,
    pub(crate) param_ref: Option<ParamRef>,
    /// What is done about findings; empty for mutations.
    pub(crate) actions: Vec<Str>,
}

impl Binding {
    pub(crate) fn of(binding: &Value) -> Self {
        let spec = binding.get("spec").unwrap_or(&Value::Null);
        let actions = spec.get("validationActions").and_then(Value::as_array).unwrap_or_default();
        Binding {
            name: Meta::of(binding).name().into(),
            policy: spec.str_at(&["policyName"]).unwrap_or_default().into(),
            matches: spec.get("matchResources").filter(|m| !m.is_null()).map(Matches::of),
            param_ref: ParamRef::of(spec),
            actions: actions.iter().filter_map(Value::as_shared_str).cloned().collect(),
        }
    }
}

/// A policy with its bindings, by name.
pub(crate) struct Hook<W> {
    pub(crate) policy: Arc<Policy<W>>,
    pub(crate) bindings: Vec<Binding>,
}

impl<W> Clone for Hook<W> {
    fn clone(&self) -> Self {
        Hook { policy: self.policy.clone(), bindings: self.bindings.clone() }
    }
}

impl<W: Work> Hook<W> {
    /// The policies of files, with their bindings.
    pub(crate) fn all_of(loaded: Loaded) -> Vec<Self> {
        let mut bindings = by_policy(loaded.bindings.iter().map(Binding::of));
        let hooks = loaded.objects.iter().map(|policy| {
            let policy = Arc::new(Policy::of(policy));
            Hook { bindings: bindings.remove(&policy.name).unwrap_or_default(), policy }
        });
        hooks.collect()
    }
}

fn by_policy(bindings: impl Iterator<Item = Binding>) -> HashMap<Str, Vec<Binding>> {
    let mut by_policy: HashMap<Str, Vec<Binding>> = HashMap::new();
    for binding in bindings {
        by_policy.entry(binding.policy.clone()).or_default().push(binding);
    }
    by_policy
}

/// The policies of one kind.
pub(crate) struct PolicySource<W> {
    policies: Arc<Lister>,
    bindings: Arc<Lister>,
    /// Policies of files.
    files: Option<Arc<Static<Hook<W>>>>,
    state: ArcSwapOption<State<W>>,
    /// Held while policies are compiled, so that each is compiled once.
    compiling: Mutex<()>,
}

type Hooks<W> = Arc<Vec<Hook<W>>>;

/// What the caches and the files held, and what was made of it.
struct State<W> {
    policies: Snapshot,
    bindings: Snapshot,
    files: Option<Hooks<W>>,
    hooks: Hooks<W>,
    /// By name.
    compiled: HashMap<Str, Compiled<W>>,
}

/// A policy with the uid and generation that was compiled.
struct Compiled<W>(Str, i64, Arc<Policy<W>>);

impl<W: Work> PolicySource<W> {
    pub(crate) fn new(policies: Arc<Lister>, bindings: Arc<Lister>, files: Option<Arc<Static<Hook<W>>>>) -> Self {
        PolicySource { policies, bindings, files, state: ArcSwapOption::empty(), compiling: Mutex::new(()) }
    }

    /// The policies that may have a say in writes of a row, those of files first, then those that have bindings, by name;
    /// `None` if there are none. About policies themselves only those of files have: nobody may lock themselves out.
    ///
    /// # Errors
    /// 503 and the like while the caches are not filled.
    pub(crate) async fn hooks(&self, row: &Resource) -> Result<Option<Hooks<W>>, Status> {
        let files = manifest::current(self.files.as_ref());
        if is_of_policies(row) {
            return Ok(files);
        }
        self.bindings.ready().await?;
        let bindings = self.bindings.cache().latest();
        if bindings.is_empty() {
            // What was compiled for bindings that are gone is let go.
            if self.state.load().is_some() {
                self.state.store(None);
            }
            return Ok(files);
        }
        self.policies.ready().await?;
        let hooks = self.of(&bindings, &self.policies.cache().latest(), files).await;
        Ok((!hooks.is_empty()).then_some(hooks))
    }

    async fn of(&self, bindings: &Snapshot, policies: &Snapshot, files: Option<Hooks<W>>) -> Hooks<W> {
        let as_pointer = |files: &Option<Hooks<W>>| files.as_ref().map(Arc::as_ptr);
        let shows = |state: &State<W>| {
            let same_files = as_pointer(&state.files) == as_pointer(&files);
            same_files && state.bindings.shares(bindings) && state.policies.shares(policies)
        };
        if let Some(state) = &*self.state.load()
            && shows(state)
        {
            return state.hooks.clone();
        }
        let _compiling = self.compiling.lock().await;
        let before = self.state.load_full();
        if let Some(state) = before.as_ref().filter(|state| shows(state)) {
            return state.hooks.clone();
        }
        // A binding takes about as much time as so many bytes of a document.
        let compile = || self.compile(bindings, policies, files.clone(), before.as_deref());
        let state = offload::once(bindings.len() << 10, compile);
        let hooks = state.hooks.clone();
        self.state.store(Some(Arc::new(state)));
        hooks
    }

    fn compile(
        &self,
        bindings: &Snapshot,
        policies: &Snapshot,
        files: Option<Hooks<W>>,
        before: Option<&State<W>>,
    ) -> State<W> {
        let found = bindings.range(self.bindings.prefix(), None).filter_map(|entry| entry.object());
        let found = found.filter_map(|object| json::decode(object.bytes()).ok());
        let mut compiled = HashMap::new();
        let mut hooks = Vec::new();
        for (name, bindings) in by_policy(found.map(|binding| Binding::of(&binding))) {
            let key = self.policies.key("", &name);
            let Some(object) = policies.get(&key).and_then(|entry| entry.object()) else { continue };
            let Ok(value) = json::decode(object.bytes()) else { continue };
            let meta = Meta::of(&value);
            let (uid, generation) = (meta.uid(), meta.generation());
            let known = before.and_then(|state| state.compiled.get(&name));
            let known = known.filter(|known| known.0 == uid && known.1 == generation);
            let policy = match known {
                Some(known) => known.2.clone(),
                None => Arc::new(offload::once(object.bytes().len(), || Policy::of(&value))),
            };
            compiled.insert(name, Compiled(uid.into(), generation, policy.clone()));
            hooks.push(Hook { policy, bindings });
        }
        hooks.sort_by(|a, b| a.policy.name.cmp(&b.policy.name));
        let hooks = files.iter().flat_map(|files| files.iter().cloned()).chain(hooks).collect();
        State { policies: policies.clone(), bindings: bindings.clone(), files, hooks: Arc::new(hooks), compiled }
    }
}
