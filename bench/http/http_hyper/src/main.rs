// Hello world on hyper: one thread, HTTP/1.1. usage: http_hyper PORT
use hyper::header::{HeaderValue, CONNECTION, CONTENT_TYPE};
use hyper::service::{make_service_fn, service_fn};
use hyper::{Body, Request, Response, Server};
use std::convert::Infallible;
use std::net::SocketAddr;

const BACKLOG: u32 = 4096;

async fn hello(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let mut reply = Response::new(Body::from("Hello, world\n"));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    // hyper closes the connection, but does not set the field Connection. wrk counts that as an
    // error.
    if let Some(value) = request.headers().get(CONNECTION) {
        reply.headers_mut().insert(CONNECTION, value.clone());
    }
    Ok(reply)
}

async fn serve(address: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?.into_std()?;
    let service = make_service_fn(|_| async { Ok::<_, Infallible>(service_fn(hello)) });
    Server::from_tcp(listener)?
        .tcp_nodelay(true)
        .http1_only(true)
        .http1_pipeline_flush(true)
        .serve(service)
        .await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).expect("usage: http_hyper PORT").parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(serve(SocketAddr::from(([127, 0, 0, 1], port))))
}
