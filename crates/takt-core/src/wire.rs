//! Systems, inputs, records and the messages of a stream as bytes, for a line between processors.
//!
//! A kernel on another processor reads its tables from these bytes, and its trace leaves as a stream of messages. Unsigned numbers have
//! seven bits in each byte, the least significant first; signed ones alternate (0, -1, 1, -2 …). The form has a [`VERSION`].

mod bytes;
mod events;
mod stream;
mod system;

pub use bytes::{Buffer, Output, Reader, VERSION, hash};
pub use events::{get_input, get_record, put_input, put_record};
pub use stream::{
    Damage, Figure, FigureKind, LONGEST, Message, check, next_message, put_body, put_input_message, put_message,
    put_record_message,
};
pub use system::{NotEncoded, get_system, put_system};
