//! The web service through the seam: the reply to each request, under any split, warm or cold;
//! refusals; and slow clients.

mod auth;
mod files;
mod log;
mod proxied;
mod refusals;
mod rules;
mod sites;
mod slowness;
mod splits;
mod talk;
