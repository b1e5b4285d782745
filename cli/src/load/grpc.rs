//! A message of gRPC from JSON, by the descriptor set of its service: the generator knows no
//! message beforehand. The JSON is that of protobuf (protobuf.dev, "ProtoJSON Format").

use super::plan::{named, read};
use ::load::{Target, Usage};
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use std::path::Path;

/// The bytes of the message `data` for the method that `target` names.
pub fn message(file: &Path, target: &Target, data: Option<&str>) -> Result<Vec<u8>, Usage> {
    if !target.is_grpc {
        return Err(Usage(format!("expected --descriptor with grpc://, found {target}")));
    }
    let set = read(file)?;
    let method = method(&set, &target.path).map_err(named(file))?;
    if method.is_client_streaming() {
        return Err(Usage(format!(
            "expected a method that takes one message, found {}, which takes a stream",
            method.full_name()
        )));
    }
    let text = match data.map(|text| text.strip_prefix('@').ok_or(text)) {
        None => b"{}".to_vec(),
        Some(Err(text)) => text.as_bytes().to_vec(),
        Some(Ok(file)) => read(Path::new(file))?,
    };
    let wrong = |why| {
        Usage(format!("--data: expected JSON of {}, found: {why}", method.input().full_name()))
    };
    let mut json = serde_json::Deserializer::from_slice(&text);
    let message = DynamicMessage::deserialize(method.input(), &mut json).map_err(wrong)?;
    json.end().map_err(wrong)?;
    Ok(message.encode_to_vec())
}

/// The method at `/PACKAGE.SERVICE/METHOD`.
fn method(set: &[u8], path: &str) -> Result<MethodDescriptor, Usage> {
    let pool = DescriptorPool::decode(set)
        .map_err(|why| Usage(format!("expected a descriptor set with its imports: {why}")))?;
    let names = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let services: Vec<_> = pool.services().collect();
    let wanted = |kind: &str, name: &str, all: Vec<String>| {
        Usage(format!("expected a {kind} of {}, found `{name}`", all.join(", ")))
    };
    let Some(service) = services.iter().find(|it| it.full_name() == names.0) else {
        let all = services.iter().map(|it| it.full_name().to_owned()).collect();
        return Err(wanted("service", names.0, all));
    };
    let all = || service.methods().map(|it| it.name().to_owned()).collect();
    let found = service.methods().find(|it| it.name() == names.1);
    found.ok_or_else(|| wanted("method", names.1, all()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_reflect::prost_types::{
        DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
        MethodDescriptorProto, ServiceDescriptorProto, field_descriptor_proto as field,
    };

    fn set() -> Vec<u8> {
        let text = |name: &str| Some(name.to_owned());
        let method = |name, client_streaming| MethodDescriptorProto {
            name: text(name),
            input_type: text(".a.Q"),
            output_type: text(".a.Q"),
            client_streaming,
            ..MethodDescriptorProto::default()
        };
        let asked = FieldDescriptorProto {
            name: text("who"),
            number: Some(1),
            label: Some(field::Label::Optional as i32),
            r#type: Some(field::Type::String as i32),
            ..FieldDescriptorProto::default()
        };
        let file = FileDescriptorProto {
            name: text("a.proto"),
            package: text("a"),
            syntax: text("proto3"),
            message_type: vec![DescriptorProto {
                name: text("Q"),
                field: vec![asked],
                ..DescriptorProto::default()
            }],
            service: vec![ServiceDescriptorProto {
                name: text("S"),
                method: vec![method("Ask", None), method("Pour", Some(true))],
                ..ServiceDescriptorProto::default()
            }],
            ..FileDescriptorProto::default()
        };
        FileDescriptorSet { file: vec![file] }.encode_to_vec()
    }

    #[test]
    fn a_message_is_made_from_json_or_refused_by_name() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), set()).expect("written");
        let made = |place: &str, data: Option<&str>| {
            let target: Target = place.parse().expect("a target");
            message(file.path(), &target, data).map_err(|Usage(why)| why)
        };
        let ask = "grpc://127.0.0.1:1/a.S/Ask";
        assert_eq!(made(ask, Some(r#"{"who": "Kim"}"#)), Ok(b"\x0a\x03Kim".to_vec()));
        assert_eq!(made(ask, None), Ok(Vec::new()));
        let check = |place: &str, data: &str, want: &str| {
            let why = made(place, Some(data)).expect_err(place);
            assert!(why.contains(want), "{why}");
        };
        check(ask, r#"{"whom": "Kim"}"#, "expected JSON of a.Q");
        check(ask, "{} {}", "expected JSON of a.Q");
        check("grpc://127.0.0.1:1/a.S/Tell", "{}", "a method of Ask, Pour, found `Tell`");
        check("grpc://127.0.0.1:1/a.T/Ask", "{}", "a service of a.S, found `a.T`");
        check("grpc://127.0.0.1:1/a.S/Pour", "{}", "which takes a stream");
        check("http://127.0.0.1:1/", "{}", "expected --descriptor with grpc://");
    }
}
