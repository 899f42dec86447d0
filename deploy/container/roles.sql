-- The logins of OPERATING.md, "Roles". The image of PostgreSQL runs this file once, when its volume is empty.
\getenv owner OWNER_PASSWORD
\getenv web WEB_PASSWORD
\getenv worker WORKER_PASSWORD
\getenv auditor AUDITOR_PASSWORD
create role runledger_owner login password :'owner';
create role runledger_web login password :'web';
create role runledger_worker login password :'worker';
create role runledger_auditor login password :'auditor';
create database runledger owner runledger_owner;
