//! Declares the variables of expressions about a write.

use std::sync::{Arc, LazyLock};

use cel::{Decl, Env, Structs, Type};

/// The places of the variables, which are the same in all environments.
pub(crate) mod place {
    pub(crate) const OBJECT: usize = 0;
    pub(crate) const OLD_OBJECT: usize = 1;
    pub(crate) const NAMESPACE: usize = 2;
    pub(crate) const REQUEST: usize = 3;
    pub(crate) const PARAMS: usize = 4;
    pub(crate) const AUTHORIZER: usize = 5;
    pub(crate) const REQUEST_RESOURCE: usize = 6;
    pub(crate) const VARIABLES: usize = 7;
}

/// What must not be named has a name that nobody can write.
const UNNAMED: &str = "@unnamed";

/// What an environment has beyond what all have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Names {
    /// `params`
    pub(crate) params: bool,
    /// `authorizer`
    pub(crate) authorizer: bool,
    /// `Object{}`, `JSONPatch{}` and what helps to write them.
    pub(crate) patches: bool,
}

/// The environment of expressions; `variables`: what earlier expressions are called, with their types.
pub(crate) fn environment(names: Names, variables: Option<&Arc<Decl>>) -> Env {
    let named = |name, is: bool| if is { name } else { UNNAMED };
    let env = Env::new()
        .variable_of("object", Type::Dyn)
        .variable_of("oldObject", Type::Dyn)
        .variable_with("namespaceObject", &NAMESPACE)
        .variable_with("request", &REQUEST)
        .variable_of(named("params", names.params), Type::Dyn)
        .variable_of(named("authorizer", names.authorizer), cel::authorizer_type())
        .variable_of(named("authorizer.requestResource", names.authorizer), cel::resource_check_type());
    let env = match variables {
        Some(variables) => env.variable_with("variables", variables),
        None => env,
    };
    if names.patches { env.with_structs(Arc::new(PatchTypes)).with_patch_functions() } else { env }
}

/// The structs that mutations make.
#[derive(Debug)]
struct PatchTypes;

/// The struct of one operation of a JSON patch.
pub(crate) const JSON_PATCH: &str = "JSONPatch";
/// The struct of an object; those of its parts are called by their path below it.
pub(crate) const OBJECT: &str = "Object";

impl Structs for PatchTypes {
    fn exists(&self, name: &str) -> bool {
        name == JSON_PATCH || name == OBJECT || name.strip_prefix(OBJECT).is_some_and(|rest| rest.starts_with('.'))
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        match (name, field) {
            (JSON_PATCH, "op" | "path" | "from") => Some(Type::String),
            (JSON_PATCH, "value") => Some(Type::Dyn),
            (JSON_PATCH, _) => None,
            _ => Some(Type::Dyn),
        }
    }
}

fn object(name: &str, fields: &[(&str, &Arc<Decl>)]) -> Arc<Decl> {
    Arc::new(Decl::object(name, fields.iter().map(|(name, decl)| (*name, (*decl).clone())).collect()))
}

/// An `AdmissionRequest`, without the objects, which have names of their own.
static REQUEST: LazyLock<Arc<Decl>> = LazyLock::new(|| {
    let text = Arc::new(Decl::string());
    let texts = Arc::new(Decl::list_of(Decl::string()));
    let kind = object("kubernetes.GroupVersionKind", &[("group", &text), ("version", &text), ("kind", &text)]);
    let resource =
        object("kubernetes.GroupVersionResource", &[("group", &text), ("version", &text), ("resource", &text)]);
    let extra = Arc::new(Decl::map_of(Decl::list_of(Decl::string())));
    let user =
        object("kubernetes.UserInfo", &[("username", &text), ("uid", &text), ("groups", &texts), ("extra", &extra)]);
    object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", &kind),
            ("resource", &resource),
            ("subResource", &text),
            ("requestKind", &kind),
            ("requestResource", &resource),
            ("requestSubResource", &text),
            ("name", &text),
            ("namespace", &text),
            ("operation", &text),
            ("userInfo", &user),
            ("dryRun", &Arc::new(Decl::bool())),
            ("options", &Arc::new(Decl::dynamic())),
        ],
    )
});

/// A Namespace, without its owners and managers.
static NAMESPACE: LazyLock<Arc<Decl>> = LazyLock::new(|| {
    let (text, time, int) = (Arc::new(Decl::string()), Arc::new(Decl::timestamp()), Arc::new(Decl::int()));
    let texts = Arc::new(Decl::list_of(Decl::string()));
    let map = Arc::new(Decl::map_of(Decl::string()));
    let condition = Decl::object(
        "kubernetes.NamespaceCondition",
        vec![
            ("status", text.clone()),
            ("type", text.clone()),
            ("lastTransitionTime", time.clone()),
            ("message", text.clone()),
            ("reason", text.clone()),
        ],
    );
    let status =
        object("kubernetes.NamespaceStatus", &[("conditions", &Arc::new(Decl::list_of(condition))), ("phase", &text)]);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", &text),
            ("generateName", &text),
            ("namespace", &text),
            ("labels", &map),
            ("annotations", &map),
            ("UID", &text), // upstream's spelling
            ("creationTimestamp", &time),
            ("deletionGracePeriodSeconds", &int),
            ("deletionTimestamp", &time),
            ("generation", &int),
            ("resourceVersion", &text),
            ("finalizers", &texts),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", &[("finalizers", &texts)]);
    object("kubernetes.Namespace", &[("metadata", &metadata), ("spec", &spec), ("status", &status)])
});
