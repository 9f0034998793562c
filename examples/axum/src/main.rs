//! Charges an order once, however many processes serve and however often a client asks: POST /orders/7/charge

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::{Router, extract::Path, extract::State, http::StatusCode, routing::post};
use quorlock::{Client, Error, ErrorKind, Lease};
use tokio::{net::TcpListener, signal::unix, sync::mpsc};

type Answer = Result<String, (StatusCode, &'static str)>;

#[derive(Clone)]
struct Shop {
    locks: Client,
    // In place of a database: the fence of the hold that charged an order.
    charged: Arc<Mutex<HashMap<u64, u64>>>,
    _at_work: mpsc::Sender<()>,
}

async fn charge(State(shop): State<Shop>, Path(order): Path<u64>) -> Answer {
    // The wait is shorter than clients wait for an answer. A client that hangs up drops this future, which ends the wait.
    let lock = shop.locks.lock(format!("order:{order}")).wait(Duration::from_secs(1));
    let lease = lock.acquire().await.map_err(answer)?;
    // A task goes on when its client hangs up: a payment that stops half way would be made, and not written down.
    tokio::spawn(pay(shop, order, lease)).await.unwrap_or(Err((StatusCode::INTERNAL_SERVER_ERROR, "the charge failed")))
}

async fn pay(shop: Shop, order: u64, lease: Lease) -> Answer {
    if let Some(fence) = shop.charged.lock().unwrap().get(&order) {
        return Ok(format!("charged, fence {fence}"));
    }
    let fence = lease.fence().unwrap_or_default();
    println!("charging order {order}, fence {fence}");
    // The payment provider, with the order as its idempotency key.
    tokio::time::sleep(Duration::from_millis(300)).await;
    // UPDATE orders SET fence = $2 WHERE id = $1 AND fence <= $2
    let written = *shop.charged.lock().unwrap().entry(order).and_modify(|old| *old = fence.max(*old)).or_insert(fence);
    if written != fence {
        return Err((StatusCode::CONFLICT, "another request has the order"));
    }
    // The charge is written down, and the fence keeps it right if this fails.
    let _ = lease.release().await;
    Ok(format!("charged, fence {fence}"))
}

/// What a client may know. The text of the error names servers, and is for the log.
fn answer(error: Error) -> (StatusCode, &'static str) {
    eprintln!("{error}");
    match error.kind() {
        ErrorKind::Contended | ErrorKind::Timeout => (StatusCode::CONFLICT, "another request has the order"),
        ErrorKind::QuorumUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "try again later"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "the charge failed"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = Client::from_env()?;
    let (at_work, mut over) = mpsc::channel(1);
    let shop = Shop { locks: locks.clone(), charged: Arc::default(), _at_work: at_work };
    let service = Router::new().route("/orders/{order}/charge", post(charge)).with_state(shop);
    let port = std::env::var("PORT").unwrap_or("3000".into());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("http://{}", listener.local_addr()?);
    let mut terminate = unix::signal(unix::SignalKind::terminate())?;
    axum::serve(listener, service).with_graceful_shutdown(async move { _ = terminate.recv().await }).await?;
    // Charges go on whose clients have hung up: this returns when the last of them has let go of its sender.
    over.recv().await;
    locks.close().await;
    Ok(())
}
