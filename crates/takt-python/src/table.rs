//! Tables by Arrow's C interface: pandas, polars and pyarrow take them without a copy.

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, LargeStringArray, RecordBatch, RecordBatchIterator};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::sync::Arc;
use takt::table::Values;

/// The most rows that a drawn table has.
const DRAWN: usize = 20;

/// A table with columns of numbers and texts.
#[pyclass(frozen, module = "takt_rt")]
pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    /// Takes the columns of a table.
    pub(crate) fn new(table: takt::table::Table) -> PyResult<Table> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::<ArrayRef>::new());
        for column in table.columns {
            let (kind, array): (DataType, ArrayRef) = match column.values {
                Values::Numbers(values) => (DataType::Int64, Arc::new(Int64Array::from(values))),
                Values::Decimals(values) => (DataType::Float64, Arc::new(Float64Array::from(values))),
                Values::Texts(values) => (DataType::LargeUtf8, Arc::new(LargeStringArray::from(values))),
            };
            fields.push(Field::new(column.name, kind, true));
            arrays.push(array);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(failed)?;
        Ok(Table { batch })
    }

    fn names(&self) -> Vec<String> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// A cell as text; empty where the row has no value.
    fn cell(&self, column: usize, row: usize) -> String {
        let array = self.batch.column(column);
        if array.is_null(row) {
            return String::new();
        }
        match array.data_type() {
            DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
            DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_string(),
            _ => array.as_string::<i64>().value(row).to_owned(),
        }
    }

    fn drawn(&self) -> impl Iterator<Item = Vec<String>> {
        let cells = |row| (0..self.batch.num_columns()).map(|column| self.cell(column, row)).collect();
        (0..self.batch.num_rows().min(DRAWN)).map(cells)
    }
}

fn failed(why: arrow_schema::ArrowError) -> PyErr {
    PyRuntimeError::new_err(why.to_string())
}

#[pymethods]
impl Table {
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.names()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyList>> {
        let Some(array) = self.batch.column_by_name(column) else {
            let names = self.names();
            let near = takt::nearest(column, names.iter().map(String::as_str));
            let near = near.map_or(String::new(), |near| format!(": did you mean `{near}`?"));
            return Err(PyKeyError::new_err(format!("there is no column `{column}`{near}")));
        };
        match array.data_type() {
            DataType::Int64 => PyList::new(py, array.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()),
            DataType::Float64 => PyList::new(py, array.as_primitive::<Float64Type>().iter().collect::<Vec<_>>()),
            _ => PyList::new(py, array.as_string::<i64>().iter().collect::<Vec<_>>()),
        }
    }

    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = self.names();
        let columns: Vec<_> = names.iter().map(|name| self.__getitem__(py, name)).collect::<PyResult<_>>()?;
        let rows = (0..self.batch.num_rows()).map(|row| {
            let object = PyDict::new(py);
            for (name, column) in names.iter().zip(&columns) {
                object.set_item(name, column.get_item(row)?)?;
            }
            Ok(object)
        });
        PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to ignore a wish for other types.
        let _ = requested_schema;
        let reader = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema_ref().as_ref()).map_err(failed)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __repr__(&self) -> String {
        let rows: Vec<Vec<String>> = std::iter::once(self.names()).chain(self.drawn()).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.batch.num_columns()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            cells.join("  ").trim_end().to_owned()
        };
        let mut lines: Vec<String> = rows.iter().map(line).collect();
        lines.extend(self.rest());
        lines.join("\n")
    }

    fn _repr_html_(&self) -> String {
        let row = |tag: &str, cells: Vec<String>| {
            let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
            format!("<tr>{cells}</tr>")
        };
        let body: String = self.drawn().map(|cells| row("td", cells)).collect();
        let rest = self.rest().map_or(String::new(), |rest| format!("<p>{rest}</p>"));
        format!("<table><thead>{}</thead><tbody>{body}</tbody></table>{rest}", row("th", self.names()))
    }
}

impl Table {
    /// The line about rows that are not drawn.
    fn rest(&self) -> Option<String> {
        let rows = self.batch.num_rows();
        (rows > DRAWN).then(|| format!("{DRAWN} of {rows} rows"))
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
