//! What MySQL and MariaDB are asked to keep beyond the contract.
