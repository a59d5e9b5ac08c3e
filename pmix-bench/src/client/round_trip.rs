//! Requests that the host answers: publish, lookup, unpublish, queries.

use pmix_client::types::{DataArray, Query};
use pmix_client::{Value, keys};

use super::rank::{Bench, Of, Unit, wrong};
use crate::Result;

impl Bench {
    pub(super) async fn publish(&self) -> Result<()> {
        let calls = match self.n {
            1..=2 => 400,
            3..=8 => 150,
            9..=32 => 50,
            _ => 30,
        };
        let text = "x".repeat(64);
        let key = |rank: u32, index: usize| format!("bench.pub.{rank}.{index}");
        self.page.barrier();
        for index in 0..calls {
            let (key, value) = (key(self.rank, index), Value::from(text.clone()));
            self.timed(index, || self.client.publish().data(key.as_str(), value)).await?;
        }
        self.report("publish", 64, 0..calls, Of::All, Unit::Micros)?;
        self.report_rate("publish_rate", 64, calls)?;
        self.page.barrier();
        let peer = self.peer((self.rank + 1) % self.n);
        for index in 0..calls {
            let key = key(peer.rank.to_raw(), index);
            let found = self.timed(index, || self.client.lookup([key.as_str()])).await?;
            if found.get::<String>(key.as_str())?.as_ref() != Some(&text)
                || found.publisher(&key) != Some(&peer)
            {
                return wrong(format!("wrong data under {key}"));
            }
        }
        self.report("lookup", 64, 0..calls, Of::All, Unit::Micros)?;
        self.report_rate("lookup_rate", 64, calls)?;
        self.page.barrier();
        for index in 0..calls {
            let key = key(self.rank, index);
            self.timed(index, || self.client.unpublish([key.as_str()])).await?;
        }
        self.report("unpublish", 64, 0..calls, Of::All, Unit::Micros)?;
        self.report_rate("unpublish_rate", 64, calls)
    }

    pub(super) async fn query(&self) -> Result<()> {
        if self.is_first() {
            let default = Query::new(&keys::QUERY_NAMESPACES);
            let asking = default.clone().qualifier(&keys::QUERY_REFRESH_CACHE, true);
            self.query_namespaces("query_namespaces", &asking).await?;
            self.query_namespaces("query_namespaces_default", &default).await?;
            for (rows, calls) in [(1_000, 30), (10_000, 15), (100_000, 6)] {
                self.query_table(rows, calls).await?;
            }
        }
        self.page.barrier();
        Ok(())
    }

    async fn query_namespaces(&self, metric: &str, query: &Query) -> Result<()> {
        const CALLS: usize = 300;
        for index in 0..CALLS {
            let query = [query.clone()];
            let found = self.timed(index, || self.client.query(query)).await?;
            if found.get(keys::QUERY_NAMESPACES)?.is_none() {
                return wrong("no namespaces");
            }
        }
        self.print_own(metric, 0, CALLS)
    }

    async fn query_table(&self, rows: usize, calls: usize) -> Result<()> {
        let query = Query::new(&keys::QUERY_PROC_TABLE)
            .qualifier(&keys::NSPACE.text(), format!("bench-table.{rows}"))
            .qualifier(&keys::QUERY_REFRESH_CACHE, true);
        // the first one is not counted: the host makes the table then
        for index in std::iter::once(0).chain(0..calls) {
            let query = [query.clone()];
            let found = self.timed(index, || self.client.query(query)).await?;
            let table = found.get_value(keys::QUERY_PROC_TABLE.name()).and_then(Value::as_array);
            if table.and_then(DataArray::as_proc_infos).is_none_or(|table| table.len() != rows) {
                return wrong(format!("a table without {rows} rows"));
            }
        }
        self.print_own("query_proc_table", rows as u64, calls)
    }

    /// Prints a metric that this rank alone has samples of.
    fn print_own(&self, metric: &str, size: u64, calls: usize) -> Result<()> {
        let lasted = |index| {
            let (begin, end) = self.page.sample(self.rank, index).get();
            end.saturating_sub(begin)
        };
        self.print(metric, size, Unit::Micros, (0..calls).map(lasted))
    }
}
