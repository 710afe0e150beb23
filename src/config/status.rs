//! A function that shows the pollers of its app, and lets people act on them.

/// An HTTP function with a `status` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusFunction {
    pub name: String,
    /// Below the address of the app: route prefix and the plain part of the route, without slashes
    /// around it.
    pub path: String,
    /// The names of its bindings: what comes in, and what answers.
    pub request: String,
    pub response: String,
    /// Whether it pauses, resumes, sends again and discards.
    pub actions: bool,
    /// Whether the platform signs people in, so that its headers about them can be believed.
    pub signs_in: bool,
}
