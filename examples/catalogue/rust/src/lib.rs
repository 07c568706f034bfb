//! Public bugs of Kubernetes controllers, each as two plugins that differ in the bug only: a *wrong* twin and a *right* twin.
//!
//! Each module of [`cases`] is one bug. Its type implements [`Case`], and [`Wrong`] and [`Right`] make plugins of it. A file in `plugins/`
//! exports each of them, so that each has a .wasm file of its own. `catalogue.yaml` has the table of all cases.

pub mod cases;
mod http;
pub mod kit;
pub mod random_names;

use pilothouse_sdk::{Config, Context, Describe, Error, Outcome, Plugin, Reconciler, Request};

/// A bug: what both twins declare, and how each of them reconciles.
pub trait Case: Default + 'static {
    /// The name of the case. The plugins are `NAME-wrong` and `NAME-right`.
    const NAME: &'static str;

    /// Adds watches, writes and CRDs to the descriptor.
    fn describe(plugin: Plugin) -> Plugin;

    /// Reconciles with the bug.
    ///
    /// # Errors
    /// As [`Reconciler::reconcile`].
    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error>;

    /// Reconciles without the bug.
    ///
    /// # Errors
    /// As [`Reconciler::reconcile`].
    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error>;
}

/// The plugin with the bug.
#[derive(Default)]
pub struct Wrong<C>(C);

/// The plugin without the bug.
#[derive(Default)]
pub struct Right<C>(C);

impl<C: Case> Describe for Wrong<C> {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(C::describe(kit::plugin(C::NAME, "wrong")))
    }
}

impl<C: Case> Describe for Right<C> {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(C::describe(kit::plugin(C::NAME, "right")))
    }
}

impl<C: Case> Reconciler for Wrong<C> {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        self.0.wrong(ctx, request)
    }
}

impl<C: Case> Reconciler for Right<C> {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        self.0.right(ctx, request)
    }
}
