// The workload echo: one task per connection.
use crate::runtime;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const BACKLOG: u32 = 4096;
const BUFFER_BYTES: usize = 4096;

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; BUFFER_BYTES];
    loop {
        let bytes = stream.read(&mut buffer).await?;
        if bytes == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..bytes]).await?;
    }
}

async fn accept(port: u16) -> std::io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], port)))?;
    let listener = socket.listen(BACKLOG)?;
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    }
}

pub fn echo(port: usize, _: usize) {
    runtime().block_on(accept(port as u16)).unwrap();
}
