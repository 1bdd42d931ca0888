"""The broker's HTTP face: translate, call the broker, translate back.

request ──▶ routes ──▶ parameters ──▶ broker.…(then) ──▶ … durable … ──▶ then ──▶ response

desk         what every route has at hand: the broker, limits, names for owners, threads for large bodies
route        one method and path, what it takes and what it answers; the table of all of them
parameters   the query and the JSON body, read as one value
places       where a group or a reader begins
terms        settings of a topic or a group
formats      JSON, NDJSON or Arrow: which one came, which one is wanted
refusals     errors as answers
need         the right that a route asks for
door         whether tokens are asked for, who is let in, who has to go
visit        one request and who makes it
guard        between the table and a route: asks the door, tells the audit
origin       web pages of others, kept out
audit        who did what, in the log
making       what is made by the way, told to the audit
exposure     where a broker may listen
tls, watch   the certificate; what is looked at again while the broker runs
page_headers what browsers are told about our pages
limits       how much one request may hold

topics, produce, staging, lease, consume, settle, groups, reads, readers, about    the routes, by noun
openapi, page, metrics, config    the descriptions
live, snapshot, dashboard    what happens now, and the page that shows it
app, logs    a broker behind its port, and what it says about itself
"""
