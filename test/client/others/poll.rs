//! A client as others write them: strict types, the fields that it knows, polling. It prints a line for each step. It has no
//! crates, so it reads HTTP and JSON itself.
use std::collections::HashMap;
use std::io::{Read, Write};
use std::iter::Peekable;
use std::net::TcpStream;
use std::str::Chars;
use std::{env, thread, time::Duration};

enum Json {
    Null,
    Bool,
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(HashMap<String, Json>),
}

impl Json {
    fn text(&self) -> String {
        match self {
            Json::Text(text) => text.clone(),
            _ => panic!("not a string"),
        }
    }
    fn field(&self, name: &str) -> &Json {
        match self {
            Json::Object(fields) => fields.get(name).unwrap_or_else(|| panic!("no field {name}")),
            _ => panic!("not an object"),
        }
    }
    fn maybe_text(&self) -> Option<String> {
        (!matches!(self, Json::Null)).then(|| self.text())
    }
    fn maybe_number(&self) -> Option<f64> {
        match self {
            Json::Null => None,
            Json::Number(number) => Some(*number),
            _ => panic!("not a number"),
        }
    }
}

fn skip(from: &mut Peekable<Chars>, wanted: char) {
    assert_eq!(from.next(), Some(wanted));
}

fn parse(from: &mut Peekable<Chars>) -> Json {
    match *from.peek().expect("more JSON") {
        '"' => Json::Text(string(from)),
        '[' => Json::List(items(from, ']', parse)),
        '{' => Json::Object(items(from, '}', pair).into_iter().collect()),
        _ => {
            let mut word = String::new();
            while let Some(next) = from.next_if(|c| c.is_alphanumeric() || "+-.".contains(*c)) {
                word.push(next);
            }
            match word.as_str() {
                "null" => Json::Null,
                "true" | "false" => Json::Bool,
                number => Json::Number(number.parse().expect("a number")),
            }
        }
    }
}

fn pair(from: &mut Peekable<Chars>) -> (String, Json) {
    let name = string(from);
    skip(from, ':');
    (name, parse(from))
}

fn items<T>(from: &mut Peekable<Chars>, end: char, item: fn(&mut Peekable<Chars>) -> T) -> Vec<T> {
    let mut found = Vec::new();
    from.next();
    while from.next_if_eq(&end).is_none() {
        if !found.is_empty() {
            skip(from, ',');
        }
        found.push(item(from));
    }
    found
}

fn string(from: &mut Peekable<Chars>) -> String {
    let mut text = String::new();
    skip(from, '"');
    loop {
        match from.next().expect("the end of a string") {
            '"' => return text,
            '\\' => text.push(match from.next() {
                Some('n') => '\n',
                Some(other) => other,
                None => panic!("the end of an escape"),
            }),
            other => text.push(other),
        }
    }
}

fn call(method: &str, path: &str, body: &str, wanted: u16) -> Json {
    let (server, key) = (env::var("SERVER").unwrap(), env::var("KEY").unwrap());
    let host = server.strip_prefix("http://").expect("an http server");
    let length = body.len();
    let mut socket = TcpStream::connect(host).unwrap();
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
    assert_eq!(head.split(' ').nth(1), Some(wanted.to_string().as_str()), "{path}");
    parse(&mut body.chars().peekable())
}

#[derive(PartialEq)]
enum Status {
    Pending,
    Running,
    Completed,
}

struct Record {
    status: Status,
    verdict: Option<String>,
    stdout: Option<String>,
}

fn record_of(json: &Json) -> Record {
    for name in ["exit_code", "cpu_time", "wall_time", "memory_peak"] {
        json.field(name).maybe_number();
    }
    let status = match json.field("status").text().as_str() {
        "pending" => Status::Pending,
        "running" => Status::Running,
        "completed" => Status::Completed,
        other => panic!("status {other}"),
    };
    json.field("stderr").maybe_text();
    Record { status, verdict: json.field("verdict").maybe_text(), stdout: json.field("stdout").maybe_text() }
}

fn poll(id: &str) -> Record {
    loop {
        let record = record_of(&call("GET", &format!("/api/result/{id}"), "", 200));
        if record.status == Status::Completed {
            return record;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn main() {
    let Json::List(languages) = call("GET", "/api/languages", "", 200) else { panic!("not a list") };
    println!("languages {}", languages.iter().map(Json::text).collect::<Vec<_>>().join(","));

    let hello = r#"{"language": "python", "code": "print(6 * 7)"}"#;
    let record = poll(&call("POST", "/api/submit", hello, 202).field("id").text());
    println!("polled completed {} {}", record.verdict.unwrap(), record.stdout.unwrap().trim());

    let empty = r#"{"language": "cpp", "code": "int main() {}"}"#;
    let record = poll(&call("POST", "/api/submit?wait=true", empty, 408).field("id").text());
    println!("waited completed {}", record.verdict.unwrap());
}
