-- A worker says which version of each language it has, and not the languages' names alone: {"python": "Python 3.11.2"}.
alter table consumers add column toolchains jsonb;
update consumers c set toolchains = (select coalesce(jsonb_object_agg(l, ''), '{}') from unnest(c.languages) l);
alter table consumers alter column toolchains set not null, drop column languages;
