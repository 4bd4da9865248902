//! stub
/// What a policy sees.
pub struct Context<'a>(core::marker::PhantomData<&'a ()>);
