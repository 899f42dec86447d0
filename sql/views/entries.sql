-- The columns of an entry (src/proof/entry.ts), for binary COPY. The one view that web may read. A function could not be part of
-- the query's plan: all its rows would be stored first, which costs as much as reading and printing them.
create or replace view runledger.entries as
select stream, version, type, schema, at, generation, xid, seq, facts from runledger.events;
