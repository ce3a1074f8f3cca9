//! The messages of konnectivity: `ProxyService.Proxy`, a stream of packets each way.

use prost::{Message, Oneof};

/// The method that opens a stream.
pub(crate) const PROXY: &str = "/ProxyService/Proxy";

/// What a packet is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum PacketType {
    DialReq = 0,
    DialRsp = 1,
    CloseReq = 2,
    CloseRsp = 3,
    Data = 4,
    DialCls = 5,
    Drain = 6,
}

impl PacketType {
    /// As metrics call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PacketType::DialReq => "DIAL_REQ",
            PacketType::DialRsp => "DIAL_RSP",
            PacketType::CloseReq => "CLOSE_REQ",
            PacketType::CloseRsp => "CLOSE_RSP",
            PacketType::Data => "DATA",
            PacketType::DialCls => "DIAL_CLS",
            PacketType::Drain => "DRAIN",
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Packet {
    #[prost(enumeration = "PacketType", tag = "1")]
    pub(crate) r#type: i32,
    #[prost(oneof = "Payload", tags = "2, 3, 4, 5, 6, 7")]
    pub(crate) payload: Option<Payload>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Payload {
    #[prost(message, tag = "2")]
    DialRequest(DialRequest),
    #[prost(message, tag = "3")]
    DialResponse(DialResponse),
    #[prost(message, tag = "4")]
    Data(Data),
    #[prost(message, tag = "5")]
    CloseRequest(CloseRequest),
    #[prost(message, tag = "6")]
    CloseResponse(CloseResponse),
    #[prost(message, tag = "7")]
    CloseDial(CloseDial),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DialRequest {
    #[prost(string, tag = "1")]
    pub(crate) protocol: String,
    #[prost(string, tag = "2")]
    pub(crate) address: String,
    #[prost(int64, tag = "3")]
    pub(crate) random: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DialResponse {
    #[prost(string, tag = "1")]
    pub(crate) error: String,
    #[prost(int64, tag = "2")]
    pub(crate) connect_id: i64,
    #[prost(int64, tag = "3")]
    pub(crate) random: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CloseRequest {
    #[prost(int64, tag = "1")]
    pub(crate) connect_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CloseResponse {
    #[prost(string, tag = "1")]
    pub(crate) error: String,
    #[prost(int64, tag = "2")]
    pub(crate) connect_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CloseDial {
    #[prost(int64, tag = "1")]
    pub(crate) random: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Data {
    #[prost(int64, tag = "1")]
    pub(crate) connect_id: i64,
    #[prost(string, tag = "2")]
    pub(crate) error: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) data: bytes::Bytes,
}

impl Packet {
    pub(crate) fn new(payload: Payload) -> Self {
        let kind = match &payload {
            Payload::DialRequest(_) => PacketType::DialReq,
            Payload::DialResponse(_) => PacketType::DialRsp,
            Payload::Data(_) => PacketType::Data,
            Payload::CloseRequest(_) => PacketType::CloseReq,
            Payload::CloseResponse(_) => PacketType::CloseRsp,
            Payload::CloseDial(_) => PacketType::DialCls,
        };
        Packet { r#type: kind as i32, payload: Some(payload) }
    }
}
