-- A worker says which version of each language it has, and not the languages' names alone: {"python": "Python 3.11.2"}. The
-- column keeps its place: one that was dropped would be missing in a restored dump, and verify compares the two.
alter table consumers alter column languages type jsonb using jsonb_object(languages, languages);
alter table consumers rename column languages to toolchains;
